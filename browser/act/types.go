package act

import (
	"context"
	"io"
	"time"
)

// At is what a look is at.
type At string

// The values of At.
const (
	AtPage      At = "page"      // what the tab shows, as lines; the default
	AtChanges   At = "changes"   // what changed since the last look or changes
	AtText      At = "text"      // the HTML of the live document, for a reader
	AtPicture   At = "picture"   // a JPEG of the window
	AtConsole   At = "console"   // the lines of its console
	AtNetwork   At = "network"   // its requests
	AtTabs      At = "tabs"      // the tabs of the seat
	AtDownloads At = "downloads" // the files that wait to be saved
)

// Scope is how much of a page a look shows.
type Scope string

// The scopes.
const (
	ScopeView Scope = "view" // what is on the screen; the default
	ScopeAll  Scope = "all"
)

// LookRequest asks for a look.
type LookRequest struct {
	At    At
	Tab   string // such as "t1"; empty is the current one
	Scope Scope
	// In is the reference of the element or frame to which the look is confined; 0
	// is the whole page.
	In int
	// Find leaves only the lines that contain it, without regard to case.
	Find string
	// Offset continues the last look of this tab, in characters of its whole text.
	Offset int
	// MaxChars bounds Look.Text: 500 to MaxChars; 0 is DefaultChars.
	MaxChars int
}

// Look is what a look saw.
type Look struct {
	Tab, URL, Title string
	// Text is for the agent as it is: between marks that the page cannot know, every
	// line escaped and bounded. It is empty only with a Picture.
	Text string
	// HTML is set by AtText alone: the document as ReadDocs gets it, not masked and
	// not cleaned. The caller converts it and passes the result through Seat.Mask.
	HTML string
	// Picture is set by AtPicture alone: a JPEG of Width times Height pixels.
	Picture       []byte
	Width, Height int
	// Next is the offset of the next part; 0 at the end.
	Next int
	// Dialog is set while a dialog waits for an answer; then Text has only its words.
	Dialog *Dialog
}

// Dialog is a dialog of a page that waits for the step dialog.
type Dialog struct {
	Kind string // confirm, prompt or beforeunload
	Text string // cleaned and cut
}

// Verb is what a step does.
type Verb string

// The verbs. Verbs lists those that work.
const (
	DoOpen    Verb = "open"
	DoBack    Verb = "back"
	DoForward Verb = "forward"
	DoReload  Verb = "reload"
	DoClick   Verb = "click"
	DoHover   Verb = "hover"
	DoFill    Verb = "fill"
	DoPress   Verb = "press"
	DoSelect  Verb = "select"
	DoCheck   Verb = "check"
	DoScroll  Verb = "scroll"
	DoDrag    Verb = "drag"
	DoUpload  Verb = "upload"
	DoSave    Verb = "save"
	DoPDF     Verb = "pdf"
	DoWait    Verb = "wait"
	DoDialog  Verb = "dialog"
	DoEval    Verb = "eval"
	DoSwitch  Verb = "switch"
	DoClose   Verb = "close"
)

// Point is a place in the last picture of a tab, in its pixels.
type Point struct{ X, Y int }

// Step is one step of an agent. Check says which fields a verb needs and allows.
type Step struct {
	Do       Verb
	Ref      int    // of a control; click, hover, fill, press, select, check, scroll, drag, upload, wait
	XY       *Point // instead of Ref; click, hover, scroll, drag
	To       int    // reference of the place where a drag ends; ToXY instead
	ToXY     *Point
	URL      string // open
	Text     string // fill, select (the option's text), press (a key, such as Control+a), scroll (up, down, top, end), wait (text to appear), dialog (of a prompt), eval (the expression), switch and close (a tab)
	Secret   string // fill: the name of a secret instead of Text
	Clear    bool   // save: overwrite the file
	Path     string // save, pdf, upload: only handed through to the facts
	Download string // save: such as "d1"
	Accept   *bool  // dialog; check: false unchecks; nil is true
	Button   string // click: left, right, middle, double; empty is left
	MS       int    // wait
	// Unseen says that nobody looks at the page after it. A step that has the page do nothing
	// but take input then returns once it did, and the page settles before it is read again.
	Unseen bool
	// File is the content of an upload. Do reads it, Prepare does not. The caller
	// opened it after the policy decided.
	File *File
}

// File is a file on its way into a page or out of one.
type File struct {
	Name string // of an upload: as the page sees it; of a save: what the page called it, cleaned, to be shown only
	Type string // media type that the server named; not to be trusted
	Size int64
	// Content has Size bytes and no more. The receiver closes it.
	Content io.ReadCloser
}

// inputs reports whether an act is input that no markup makes more of.
func (f Facts) inputs() bool {
	return f.Kind == KindPoint || f.Kind == KindType || f.Kind == KindPress
}

// Kind is what a step does, as the policy sees it.
type Kind string

// The kinds.
const (
	KindNavigate Kind = "navigate"
	KindFollow   Kind = "follow"
	KindSubmit   Kind = "submit"
	KindDownload Kind = "download"
	KindPress    Kind = "press"
	KindType     Kind = "type"
	KindSecret   Kind = "secret"
	KindPoint    Kind = "point"
	KindUpload   Kind = "upload"
	KindSave     Kind = "save"
	KindConfirm  Kind = "confirm"
	KindEval     Kind = "eval"
)

// Facts are what a step would do. They are comparable: Do does nothing unless those
// that it reads are equal to those that were prepared.
type Facts struct {
	Kind Kind
	On   string // URL of the frame that the step acts in, without fragment
	To   string // URL to which a link, form or address leads, or a download came from
	// Method is that of the request of a link or form: GET or POST.
	Method string
	Field  string // text, password, otp, card or file; of type, secret, upload
	Secret string // name
	Path   string // Step.Path: read by upload, written by save and pdf
	// Shown is the control in the words of the look, with its row, such as
	// `button "Delete" in "#1001 Customer 1"`. For asks and the audit log.
	Shown string
	// Sends is what the form of a submit holds, as far as a person could see it, such as
	// ` sends "Amount" "12"`. Passwords are left out.
	Sends string
}

// Words are the control and what its form holds: what a person is asked about.
func (f Facts) Words() string { return f.Shown + f.Sends }

// Prepared is a step that was looked at. The zero Prepared is refused by Do.
type Prepared struct {
	Tab   string
	Facts Facts
	// Seen reports, for open, whether exactly this URL was shown to the agent by a
	// look of this seat.
	Seen bool

	by   *Seat
	plan *plan
}

// Outcome is what became of a step.
type Outcome struct {
	Tab  string
	Line string // what was done, in one line
	// Stop says why no further step of the call may run, such as a dialog or another
	// document; empty to go on.
	Stop      string
	Dialog    *Dialog  // that opened and waits
	Opened    []string // tabs
	Downloads []string // that began, such as `d1 "report.csv" from https://…`
	File      *File    // of save and pdf; the caller writes it and closes it
	Value     string   // of eval: JSON, masked and bounded
	URL       string   // of the tab afterwards, masked
}

// Navigation is a document that a frame is about to ask for, or a file.
type Navigation struct {
	URL    string
	Method string
	From   string // URL of the document that it replaces
	Frame  bool   // not the top of the tab
	File   bool   // no document: what comes is a download
}

// Secret is one that may be typed, and where. Its conditions are looked at when it
// is typed.
type Secret struct {
	Name   string
	Origin string // https://host[:port], equal to the frame's
	Field  string // password, otp, card or text: what the field has to be
	// Embedded lets it be typed into a frame whose ancestors are of another origin.
	Embedded bool
	// Insecure lets it be typed without TLS.
	Insecure bool
	// Value gets it, each time. It is kept only to mask it.
	Value func(context.Context) (string, error)
}

// Options are those of one seat. The zero Options let nothing happen.
type Options struct {
	// Judge decides about every document before its request is sent; nil lets it go,
	// and the agent gets the text of an error. Without Judge, nothing is loaded. It must be
	// safe for concurrent use and return soon.
	Judge func(context.Context, Navigation) error
	// Secrets are those that may be typed.
	Secrets []Secret
	// Downloads bounds the bytes of all files that wait to be saved; 0 cancels every
	// download.
	Downloads int64
	// Uploads bounds the bytes of one upload; 0 refuses all.
	Uploads int64
	// Eval lets expressions be evaluated that change nothing.
	Eval bool
	// OneSite keeps the seat with the site of the document in which a secret was
	// typed, as long as that document is there.
	OneSite bool
	// Park is how long the seat is not used before its Chrome ends; default that of Config.
	Park time.Duration
}

// Info is what an operator sees of a seat.
type Info struct {
	ID, Tenant, Profile string
	State               string // new, live, frozen or parked
	Tabs                int
	Memory              int64     // bytes of its box
	HeldBy              string    // the person who has stopped its acts, and since when
	HeldSince           time.Time // zero while nobody has
}
