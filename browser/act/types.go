package act

import (
	"context"
	"io"
	"time"
)

// At says what a look is at.
type At string

// The values of At.
const (
	AtPage      At = "page"      // what the tab shows, as lines; the default
	AtChanges   At = "changes"   // lines that changed since the last look at the page or its changes
	AtText      At = "text"      // the HTML of the live document, for a reader
	AtPicture   At = "picture"   // a JPEG of the window
	AtConsole   At = "console"   // lines of the tab's console
	AtNetwork   At = "network"   // requests of the tab
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

// LookRequest says what a look should show.
type LookRequest struct {
	At    At
	Tab   string // name such as "t1"; empty is the current tab
	Scope Scope
	// In is the reference of the element or frame to which the look is confined; 0
	// is the whole page.
	In int
	// Find selects the lines that contain it, regardless of case.
	Find string
	// Offset is where to continue the last look of this tab, in characters of its whole
	// text.
	Offset int
	// MaxChars bounds Look.Text: 500 to MaxChars; 0 is DefaultChars.
	MaxChars int
}

// Look is the result of a look.
type Look struct {
	Tab, URL, Title string
	// Text is for the agent, unchanged: it is between marks that the page cannot know, and
	// every line is escaped and bounded. It is empty only with HTML or a Picture.
	Text string
	// HTML is set by AtText alone: the document as ReadDocs gets it, not masked and
	// not cleaned. The caller converts it and passes the result through Seat.Mask.
	HTML string
	// Cut reports whether HTML is only the beginning of the document.
	Cut bool
	// Picture is set by AtPicture alone: a JPEG of Width times Height pixels.
	Picture       []byte
	Width, Height int
	// Next is the offset of the next part; 0 at the end.
	Next int
	// Dialog is set while a dialog waits for an answer; Text then contains only its words.
	Dialog *Dialog
}

// Dialog is a dialog of a page that waits for the step dialog.
type Dialog struct {
	Kind string // confirm, prompt or beforeunload
	Text string // text of the dialog, cleaned and cut
}

// Verb is what a step does.
type Verb string

// The verbs. Verbs returns those that are supported.
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
	Do   Verb
	Ref  int    // reference of a control; for click, hover, fill, press, select, check, scroll, drag, upload
	XY   *Point // point instead of Ref; for click, hover, scroll, drag
	To   int    // reference of the place where a drag ends; ToXY is a point instead
	ToXY *Point
	URL  string // for open
	// for fill, select (the option's text), press (a key, such as Control+a), scroll (up,
	// down, top, end), wait (text to appear), dialog (answer to a prompt), eval (the
	// expression), switch and close (name of a tab)
	Text     string
	Secret   string // for fill: the name of a secret instead of Text
	Clear    bool   // for save, pdf: overwrite the file
	Path     string // for save, pdf, upload: only passed on to the facts
	Download string // for save: name such as "d1"
	Accept   *bool  // for dialog; for check: false unchecks; nil is true
	Button   string // for click: left, right, middle or double; empty is left
	MS       int    // for wait: milliseconds
	// Unseen says that nobody looks at the page after the step. If the step only sends
	// input to the page, it then returns once the page has taken the input, and the page
	// settles before it is read again.
	Unseen bool
	// File is the content of an upload. Do reads it, Prepare does not. The caller opens it
	// after the policy has decided.
	File *File
}

// File is a file that goes into a page or comes from a page.
type File struct {
	// for an upload, the name that the page sees; for a save, the name that the page gave
	// the file, cleaned, only to be shown
	Name string
	Type string // media type of the PDF file of a page; empty for all others
	Size int64
	// Content has Size bytes and no more. The caller of Do closes it.
	Content io.ReadCloser
}

// inputs reports whether an act is plain input, which the page's markup does not turn into
// another kind of act.
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

// Facts are what a step would do. They are comparable: Do does nothing unless the facts
// that it reads are equal to the facts that were prepared.
type Facts struct {
	Kind Kind
	On   string // URL of the frame that the step acts in, without fragment
	To   string // URL to which a link, form or address leads, or from which a download came
	// Method is the method of the request of a link or form: GET or POST.
	Method string
	Field  string // text, password, otp, card or file; for type, secret, upload
	Secret string // name of the secret
	Path   string // Step.Path: read by upload, written by save and pdf
	// Shown is the control in the words of the look, with its row, such as `button "Delete"
	// in "#1001 Customer 1"`. It is for approvals and the audit log.
	Shown string
	// Sends is the content of the form of a submit, as far as a person could see it, such
	// as ` sends "Amount" "12"`. Passwords are left out.
	Sends string
}

// Words returns the control and the content of its form: what a person is asked about.
func (f Facts) Words() string { return f.Shown + f.Sends }

// Prepared is a step whose facts were read. Do refuses the zero Prepared.
type Prepared struct {
	Tab   string
	Facts Facts
	// Seen reports, for open, whether exactly this URL was shown to the agent by a
	// look of this seat.
	Seen bool

	by   *Seat
	plan *plan
}

// Outcome is the result of a step.
type Outcome struct {
	Tab  string
	Line string // what was done, in one line
	// Stop says why no further step of the call may run, such as a dialog or another
	// document. It is empty if the next step may run.
	Stop      string
	Dialog    *Dialog  // dialog that opened and waits
	Opened    []string // names of the tabs that opened
	Downloads []string // downloads that began, such as `d1 "report.csv" from https://…`
	File      *File    // file of save and pdf; the caller writes it and closes it
	Value     string   // value of eval: JSON, or undefined; bounded
	URL       string   // URL of Tab afterwards, masked
}

// Navigation is a document or a file that a frame is about to request.
type Navigation struct {
	URL    string
	Method string
	From   string // URL of the document that it replaces
	Frame  bool   // whether the frame is not the top of the tab
	File   bool   // whether the answer is a download, not a document
}

// Secret is a secret that may be typed, and where. Its conditions are checked when it is
// typed.
type Secret struct {
	Name   string
	Origin string // https://host[:port], equal to the origin of the frame
	Field  string // kind of field: password, otp, card or text
	// Embedded allows the secret in a frame whose ancestors are of another origin.
	Embedded bool
	// Insecure allows the secret without TLS.
	Insecure bool
	// Value returns the secret, each time. The value is kept only to mask it.
	Value func(context.Context) (string, error)
}

// Options are the options of one seat. The zero Options allow nothing.
type Options struct {
	// Judge decides about every document before its request is sent. A nil error allows the
	// document, and the agent gets the text of any other error. Without Judge, nothing is
	// loaded. It must be safe for concurrent use and return soon.
	Judge func(context.Context, Navigation) error
	// Secrets are the secrets that may be typed.
	Secrets []Secret
	// Downloads bounds the bytes of all files that wait to be saved; 0 cancels every
	// download.
	Downloads int64
	// Uploads bounds the bytes of one upload; 0 refuses all.
	Uploads int64
	// Eval allows expressions that change nothing.
	Eval bool
	// OneSite keeps a tab in which a secret was typed, and the tabs that were opened from
	// it, on the origin of that document, as long as the document exists and no step opens
	// another page in the tab.
	OneSite bool
	// Park is how long the seat is unused before its Chrome ends; the default is that of
	// Config.
	Park time.Duration
}

// Info is what an operator sees of a seat.
type Info struct {
	ID, Tenant, Profile string
	State               string // new, live, frozen or parked
	Tabs                int
	Memory              int64     // bytes of memory of its box
	HeldBy              string    // person who has stopped its acts
	HeldSince           time.Time // time since when the person has; zero if nobody has
}
