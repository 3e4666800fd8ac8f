package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"

	"belljar.dev/policies"
)

// downloadDir is the directory in Chrome's box where Chrome stores files. Chrome chooses
// their names there; the name that a server gives a file is only shown. The directory is a
// file system with room for about Options.Downloads: the events that report how much was
// received may be late, but a write without room fails immediately, and Chrome then stops
// reading.
const downloadDir = policies.BrowserDownloads

// files contains the downloads of an engine. It is guarded by the engine's mu.
type files struct {
	last  int
	all   []*download
	begun []string // lines about new downloads for the next outcome
	lost  int      // number of downloads that were cancelled because there were too many
	given int64    // bytes of the large uploads, whose files are kept
}

// loads reports whether a download is in progress.
func (f *files) loads() bool {
	return slices.ContainsFunc(f.all, func(d *download) bool { return d.state == "on its way" })
}

// download is a file that is being downloaded or was downloaded.
type download struct {
	name  string // such as d1
	guid  string
	shown string // name that the server gave the file, cleaned
	from  string // URL of the file, masked
	size  int64
	state string // "on its way", "ready" or "cancelled"
	why   string
	left  bool // whether the download was cancelled and its file may still exist
}

// lastWrite is the largest number of bytes of a download that Chrome writes in one call. If
// the write finds no room, none of these bytes counts as received.
const lastWrite = 1 << 20

type downloadEvent struct {
	FrameID       string  `json:"frameId"`
	GUID          string  `json:"guid"`
	URL           string  `json:"url"`
	Suggested     string  `json:"suggestedFilename"`
	State         string  `json:"state"`
	ReceivedBytes float64 `json:"receivedBytes"`
	TotalBytes    float64 `json:"totalBytes"`
}

// fileName returns a file name that a stranger chose, in a form that can be shown.
func fileName(raw string) string {
	name := path.Base(strings.ReplaceAll(plain(raw), `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == ':' || r == '"' || r == '<' || r == '>' || r == '|' || r == '*' || r == '?' {
			return '_'
		}
		return r
	}, name)
	if name = strings.Trim(cut(name, MaxName), ". "); name == "" || name == "/" {
		return "file"
	}
	return name
}

// fileBegins handles a download that Chrome begins.
func (e *engine) fileBegins(v downloadEvent) {
	var of *tab
	e.mu.Lock()
	for _, t := range e.tabs {
		t.mu.Lock()
		if t.frames[v.FrameID] != nil {
			of = t
		}
		t.mu.Unlock()
	}
	from := shownURL(e.masks.hide(clip(v.URL, MaxURL)))
	if strings.HasPrefix(v.URL, "data:") {
		from = "data:"
	}
	shown := fileName(e.masks.hide(clip(v.Suggested, 4096)))
	if len(e.files.all) >= MaxDownloads { // nobody can save a cancelled download, so its entry is dropped
		e.files.all = slices.DeleteFunc(e.files.all, func(d *download) bool { return d.state == "cancelled" && !d.left })
	}
	line := ""
	switch {
	case e.opts.Downloads <= 0:
		line = fmt.Sprintf("a download was refused: %s from %s; this profile allows no downloads", quoted(shown, MaxName), from)
	case len(e.files.all) >= MaxDownloads || !isGUID(v.GUID):
		e.files.lost++
		e.cancel(v.GUID)
		e.unwanted.add(v.GUID)
		if e.files.lost == 1 {
			line = fmt.Sprintf("a download was cancelled, since %d others wait to be saved", MaxDownloads)
		}
	default:
		e.files.last++
		d := &download{name: "d" + strconv.Itoa(e.files.last), guid: v.GUID, shown: shown, from: from, state: "on its way"}
		e.files.all = append(e.files.all, d)
		line = fmt.Sprintf("%s %s from %s", d.name, quoted(shown, MaxName), from)
		if len(e.files.begun) < maxNotes {
			e.files.begun = append(e.files.begun, line)
		}
		line = ""
	}
	e.mu.Unlock()
	if of != nil {
		of.change(func() {
			of.files++
			of.leaving = time.Time{}
			if line != "" {
				of.note(line)
			}
		})
	}
}

// cancel ends a download. e.mu is held.
func (e *engine) cancel(guid string) {
	e.errand(func() {
		begin(e.g, "", cdpbrowser.CancelDownload, cdpbrowser.CancelDownloadParams{GUID: guid}).drop()
	})
}

// endedEarly is why a download has ended that belljar did not cancel.
const endedEarly = "the server or the page ended it"

// maxFile is the largest size of a file that is counted with. Chrome reports sizes as
// floating point numbers, and a server may claim any size.
const maxFile = 1 << 56

// fileGoesOn counts the bytes that a download has received, and cancels a download that is
// too large.
func (e *engine) fileGoesOn(v downloadEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var d *download
	sum := int64(0)
	for _, o := range e.files.all {
		if o.guid == v.GUID {
			d = o
			d.size = int64(min(max(v.ReceivedBytes, 0), maxFile))
		}
		if o.state != "cancelled" || o.left {
			sum += o.size
		}
	}
	over := v.State == "completed" || v.State == "canceled"
	if d == nil || d.state != "on its way" {
		if over && (d == nil || d.state == "cancelled") { // Chrome may have written to the file until now
			e.unwanted.add(v.GUID)
		}
		return
	}
	limit := fmt.Sprintf("all files that wait to be saved may have %s together; save the others first", bytesOf(e.opts.Downloads))
	switch {
	case sum > e.opts.Downloads || v.TotalBytes > float64(e.opts.Downloads):
		d.state, d.why = "cancelled", limit
		e.cancel(v.GUID)
	case v.State == "completed":
		d.state = "ready"
	case v.State == "canceled" && sum+lastWrite > e.opts.Downloads: // Chrome reports a full file system as canceled too
		d.state, d.why = "cancelled", fmt.Sprintf("it ended after %s, probably because no room was left: %s", bytesOf(d.size), limit)
	case v.State == "canceled":
		d.state, d.why = "cancelled", endedEarly
	}
	if d.state == "cancelled" {
		d.left = true
		e.unwanted.add(v.GUID)
	}
	for _, t := range e.tabs {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
}

// file returns the download with this name.
func (e *engine) file(name string) (download, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var have []string
	for _, d := range e.files.all {
		if d.name == name {
			return *d, nil
		}
		have = append(have, d.name)
	}
	next := "first click a link or a button that leads to a file"
	if len(have) > 0 {
		next = "write one of: " + strings.Join(have, ", ")
	}
	return download{}, &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("download %s does not exist", quoted(name, 20)), Next: next}
}

// take opens a download that is complete.
func (e *engine) take(ctx context.Context, name string) (*File, error) {
	d, err := e.file(name)
	if err != nil {
		return nil, err
	}
	switch d.state {
	case "on its way":
		return nil, &Refusal{Reason: ReasonNotReady, Message: fmt.Sprintf("%s has %s so far", d.name, bytesOf(d.size)), Next: "wait until it is ready, then save it"}
	case "cancelled":
		if d.why == endedEarly {
			return nil, &Refusal{Reason: ReasonFailed, Message: fmt.Sprintf("%s was not received as a whole: %s", d.name, d.why), Next: "load it again"}
		}
		return nil, &Refusal{Reason: ReasonLimit, Message: fmt.Sprintf("%s was cancelled: %s", d.name, d.why), Next: "load a smaller file"}
	}
	f, err := e.lease.Open(ctx, downloadDir+"/"+d.guid)
	if err != nil {
		return nil, &Refusal{Reason: ReasonFailed, Message: d.name + " cannot be read", Next: "load it again", Err: err}
	}
	st, err := f.Stat()
	if err != nil || st.Size() > e.opts.Downloads {
		f.Close()
		return nil, &Refusal{Reason: ReasonLimit, Message: d.name + " is larger than this profile allows", Next: "load a smaller file", Err: err}
	}
	return &File{Name: d.shown, Size: st.Size(), Content: &bounded{r: io.LimitReader(f, st.Size()), f: f, read: func() { e.drop(d) }}}, nil
}

// drop forgets a download that was read, and removes its file.
func (e *engine) drop(d download) {
	e.mu.Lock()
	e.files.all = slices.DeleteFunc(e.files.all, func(o *download) bool { return o.guid == d.guid })
	e.unwanted.add(d.guid)
	e.mu.Unlock()
}

// bounded is a file that is read up to the size that it had when it was opened. The
// download is forgotten once the file was read in full and is closed.
type bounded struct {
	r    io.Reader
	f    *os.File
	end  bool
	read func()
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.end = b.end || errors.Is(err, io.EOF)
	return n, err
}

func (b *bounded) Close() error {
	if b.end {
		b.end = false
		b.read()
	}
	return b.f.Close()
}

// fileLines returns one line for each download, for the agent.
func (e *engine) fileLines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, d := range e.files.all {
		s := fmt.Sprintf("%s %s %s from %s: %s", d.name, quoted(d.shown, MaxName), bytesOf(d.size), d.from, d.state)
		if d.why != "" {
			s += ", since " + d.why
		}
		if d.left {
			s += "; its file is being removed, and takes room until then"
		}
		out = append(out, s)
	}
	if e.files.lost > 0 {
		out = append(out, fmt.Sprintf("%d more were cancelled, since at most %d may wait", e.files.lost, MaxDownloads))
	}
	return out
}

func bytesOf(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
