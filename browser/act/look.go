package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// looked is what look.js returns for a document.
type looked struct {
	Lines          []lookedLine `json:"lines"`
	Hosts          []int        `json:"hosts"`
	HiddenChars    int          `json:"hiddenChars"`
	HiddenControls int          `json:"hiddenControls"`
	Controls       int          `json:"controls"`
	Cut            string       `json:"cut"`
	Captcha        bool         `json:"captcha"`
	URL            string       `json:"url"`
	Title          string       `json:"title"`
	At             []int        `json:"at"` // scrolled x and y, size of the window, size of the page
}

// lookedLine is one line of looked.
type lookedLine struct {
	View    int   `json:"v"` // 1 if the line is on the screen
	Heading int   `json:"h"` // level of the heading; 0 for other text
	Frame   int   `json:"f"` // number of the element whose frame follows; 0 if none does
	Segs    []any `json:"s"` // text, and controls
}

// lookOptions are the options of look.js.
type lookOptions struct {
	In    int `json:"in"`
	Most  int `json:"most"` // time for the pass, in milliseconds
	Chars int `json:"chars"`
	Refs  int `json:"refs"`
	Depth int `json:"depth"`
	Name  int `json:"name"` // characters at which a name or value is cut; it is cut again after it was masked
}

// line is one line of a look.
type line struct {
	text    string
	view    bool
	heading bool
	shows   []showing
	urls    []string // addresses in the text of the page, without those in values of fields
	lacks   bool     // whether a control was left out, since there are too many numbers
}

// showing is a control in a line: what the agent is shown of it.
type showing struct {
	n               int
	role, name, row string
	to              string // address of a link
}

// sight is one pass over a tab.
type sight struct {
	taken  time.Time
	commit int
	lines  []line
	url    string
	title  string
	at     [6]int
	hidden int // number of characters that are hidden
	covert int // number of controls that are hidden
	size   int // bytes of the lines
	all    int // number of controls
	cut    string
	test   bool // whether the page tests that a person is there, for example by a CAPTCHA
}

// looks contains what is kept of a tab for the next part of a look and for its changes.
type looks struct {
	kept *sight   // pass over the tab whose parts are returned
	last []string // lines that the agent knows
	url  string
}

// see makes one pass over all frames of a tab.
func (t eye) see(ctx context.Context, in *ref) (*sight, error) {
	ctx, cancel := context.WithTimeout(ctx, LookPatience)
	defer cancel()
	t.forgetRefs()
	frames := t.tree()
	all := len(frames)
	if all == 0 {
		return nil, errLeft
	}
	o := lookOptions{Most: int(LookTime.Milliseconds()), Chars: MaxLook / 2, Refs: MaxRefs, Depth: MaxDepth, Name: 400}
	if in != nil {
		o.In = in.local
		inside := map[string]bool{in.frame: true}
		frames = slices.DeleteFunc(frames, func(f frame) bool { // a frame comes before the frames in it
			inside[f.id] = inside[f.id] || inside[f.parent]
			return !inside[f.id]
		})
		i := slices.IndexFunc(frames, func(f frame) bool { return f.id == in.frame })
		if i < 0 {
			return nil, errLeft
		}
		frames[0], frames[i] = frames[i], frames[0]
	}
	s := &sight{taken: time.Now()}
	t.mu.Lock()
	s.commit = t.commits
	if all >= MaxFrames && len(t.frames) > all {
		s.cut = "frames"
	}
	t.mu.Unlock()
	seen := map[string]*looked{}
	present(ctx, t.tab, frames)
	t.listeners(ctx, frames)
	end := time.Now().Add(LookTime * 4)
	for i, f := range frames {
		one := o
		if f.id != frames[0].id {
			one.In = 0
		}
		patience := LookPatience
		if f.session != frames[0].session {
			patience = frameTime
		}
		within, cancel := context.WithTimeout(ctx, patience)
		l, err := t.seeFrame(within, f, one)
		cancel()
		if err != nil && i == 0 {
			return nil, err
		}
		if err == nil {
			seen[f.id] = l
		} else if errors.Is(err, context.DeadlineExceeded) {
			s.cut = cmp.Or(s.cut, "time")
		}
		if time.Now().After(end) {
			s.cut = cmp.Or(s.cut, "time")
			break
		}
	}
	// The lines of a frame come at the place of its element.
	within := map[string]map[int]frame{}
	for _, f := range frames[1:] {
		if seen[f.id] == nil || seen[f.parent] == nil {
			continue
		}
		if i := slices.IndexFunc(frames, func(p frame) bool { return p.id == f.parent }); i >= 0 {
			if n := t.owner(ctx, f, frames[i]); n != 0 {
				if within[f.parent] == nil {
					within[f.parent] = map[int]frame{}
				}
				within[f.parent][n] = f
			}
		}
	}
	top := seen[frames[0].id]
	s.url, s.title = t.e.masks.hide(top.URL), t.e.masks.hide(top.Title)
	copy(s.at[:], top.At)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(s, frames[0], seen, within, true, 0)
	return s, nil
}

// present gives up the frames of other sites that do not answer. All of these frames share
// one time, frameTime and awakeTime, so that they do not delay the other frames.
func present(ctx context.Context, t *tab, frames []frame) {
	asked := map[string]*question{}
	for _, f := range frames {
		if f.session != frames[0].session && asked[f.session] == nil {
			asked[f.session] = ask(t, f.session)
		}
	}
	var wg sync.WaitGroup
	for s, q := range asked {
		wg.Go(func() {
			if givenUp(t, s) {
				return
			}
			most := frameTime
			if hopeless(t, s) {
				most = awakeTick
			}
			if !q.came(ctx, t.stop(), most) {
				timedOut(ctx, t, s)
			}
		})
	}
	wg.Wait()
}

// seeFrame makes a pass over one document.
func (t eye) seeFrame(ctx context.Context, f frame, o lookOptions) (*looked, error) {
	l := new(looked)
	if err := t.run(ctx, f, "belljar.look("+argument(o)+")", l); err != nil {
		return nil, err
	}
	if len(l.Hosts) > 0 && t.enclosed(ctx, f, l.Hosts) {
		l = new(looked)
		if err := t.run(ctx, f, "belljar.look("+argument(o)+")", l); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// write adds the lines of a frame, and of the frames in it. t.mu is held.
func (t eye) write(s *sight, f frame, seen map[string]*looked, within map[string]map[int]frame, view bool, depth int) {
	l := seen[f.id]
	switch {
	case l == nil:
		return
	case depth > 20:
		s.cut = "depth"
		return
	}
	s.hidden += l.HiddenChars
	s.covert += l.HiddenControls
	s.all += l.Controls
	s.test = s.test || l.Captcha
	if s.cut == "" {
		s.cut = l.Cut
	}
	for _, j := range l.Lines {
		w := line{view: view && j.View == 1, heading: j.Heading > 0}
		w.text = t.lineOf(&w, f, j.Segs)
		if w.lacks {
			s.cut = "controls"
		}
		if w.text == "" {
			continue
		}
		if j.Heading > 0 {
			w.text = strings.Repeat("#", min(j.Heading, 6)) + " " + w.text
		} else if len(w.shows) == 0 || !strings.HasPrefix(w.text, "[") && !strings.HasPrefix(w.text, "frame ") {
			w.text = atStart(w.text)
		}
		if s.size += len(w.text); s.size > MaxLook {
			s.cut = "text"
			return
		}
		s.lines = append(s.lines, w)
		if child, ok := within[f.id][j.Frame]; ok && j.Frame != 0 {
			t.write(s, child, seen, within, w.view, depth+1)
		}
	}
}

// lineOf returns the text of a line from its parts. t.mu is held.
func (t eye) lineOf(w *line, f frame, segs []any) string {
	var b, said strings.Builder
	defer func() {
		for _, u := range urls().FindAllString(t.e.masks.hide(said.String()), 20) {
			w.urls = append(w.urls, strings.TrimRight(u, ".,;:!?)'"))
		}
	}()
	hide := t.e.masks.hide
	// Words that stand beside each other are masked together: a page can put each letter
	// into an element of its own.
	for _, seg := range segs {
		text, ok := seg.(string)
		if ok {
			b.WriteString(escaped2(hide(text)))
			said.WriteString(escaped2(hide(text)))
			continue
		}
		c, ok := seg.(map[string]any)
		if !ok {
			continue
		}
		get := func(k string) string { s, _ := c[k].(string); return s }
		num := func(k string) int { n, _ := c[k].(float64); return int(n) }
		role, name := plain(get("r")), hide(get("m"))
		if b.Len() > 0 && !strings.HasSuffix(b.String(), " ") {
			b.WriteByte(' ')
		}
		if role == "frame" {
			b.WriteString("frame ")
		}
		if local := num("n"); local != 0 {
			n := t.refs.number(refKey{f.id, f.loader, local})
			if n == 0 {
				w.lacks = true
				continue
			}
			fmt.Fprintf(&b, "[%d] ", n)
			w.shows = append(w.shows, showing{n, role, get("m"), get("w"), get("to")})
		}
		if role != "frame" {
			b.WriteString(role)
		}
		if name != "" {
			if role != "frame" {
				b.WriteByte(' ')
			}
			b.WriteString(quoted(name, MaxName))
		}
		// The value of a field is left out: an agent could type an address into a field to
		// have it shown here.
		said.WriteString(" " + quoted(name, MaxName) + " ")
		if num("l") == 1 {
			b.WriteString(" (label)")
		}
		if v, has := c["v"].(string); has && (v != "" || num("of") > 0) {
			b.WriteString(" =" + quoted(hide(v), MaxName))
		}
		if of := num("of"); of > 0 {
			fmt.Fprintf(&b, " of %d", of)
		}
		if list, has := c["o"].([]any); has && len(list) > 0 {
			names := make([]string, 0, len(list))
			for _, o := range list {
				s, _ := o.(string)
				names = append(names, quoted(hide(s), 60))
			}
			b.WriteString(": " + strings.Join(names, ", "))
		}
		if box, has := c["box"].([]any); has && len(box) == 2 {
			fmt.Fprintf(&b, " %vx%v", box[0], box[1])
		}
		if x := plain(get("x")); x != "" {
			b.WriteString(" " + x)
		}
		b.WriteByte(' ')
	}
	return hide(strings.TrimSpace(b.String()))
}

// urls returns an expression that matches the addresses in a text.
var urls = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`https?://[^\s"<>\\]+`) })

// show notes what the agent is shown. t.mu is held.
func (t eye) show(lines []line) {
	for _, l := range lines {
		for _, u := range l.urls {
			if strings.Contains(l.text, u) { // otherwise the line was cut before the address
				t.e.seen.add(u)
			}
		}
		for _, c := range l.shows {
			if !strings.Contains(l.text, fmt.Sprintf("[%d] ", c.n)) {
				continue // the line was cut before the control
			}
			t.refs.show(c.n, c.role, c.name, c.row)
			t.e.seen.add(c.to)
		}
	}
}

// head returns the line above everything that a look shows of a tab.
func (t eye) head(s *sight, mark string) string {
	h := fmt.Sprintf("<<page %s %s %s tab %s, %dx%d at %s of %s px", mark, shownURL(s.url), quoted(s.title, MaxName), t.name,
		s.at[2], s.at[3], thousands(s.at[1]), thousands(s.at[5]))
	if s.covert > 0 {
		h += fmt.Sprintf(", %s controls hidden", thousands(s.covert))
	}
	if s.hidden > 0 {
		h += fmt.Sprintf(", %s characters of hidden text left out", thousands(s.hidden))
	}
	if s.cut != "" {
		h += ", incomplete, limit reached: " + s.cut
	}
	if tellFreed(t.tab) {
		h += ", " + wasStopped
	}
	if s.test {
		h += ", a CAPTCHA: leave it to a person"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.errors - t.told; n > 0 {
		h += fmt.Sprintf(", %s new errors in its console", thousands(n))
		t.told = t.errors
	}
	return h + ">>\n"
}

// look returns what the agent gets of a page.
func (t eye) look(ctx context.Context, q LookRequest) (*Look, error) {
	if q.Offset > 0 {
		t.mu.Lock()
		s := t.looks.kept
		t.mu.Unlock()
		if s == nil || time.Since(s.taken) > LookKept {
			return nil, &Refusal{Reason: ReasonUnknown, Message: "no recent look is kept that could be continued", Next: "look again without offset"}
		}
		return t.part(s, q)
	}
	in, err := t.inside(q.In)
	if err != nil {
		return nil, err
	}
	s, err := t.see(ctx, in)
	for range 3 {
		if !errors.Is(err, errLeft) {
			break
		}
		t.pause(ctx, 20*time.Millisecond) // another document is loading
		s, err = t.see(ctx, in)
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.looks.kept = s
	if in == nil {
		t.looks.last, t.looks.url = textsOf(s.lines), s.url
	}
	t.mu.Unlock()
	if q.In != 0 || q.Scope == ScopeAll || q.Find != "" {
		return t.part(s, q)
	}
	return t.viewed(s, q)
}

// inside returns the element to which a look is confined; nil means the whole page.
func (t eye) inside(n int) (*ref, error) {
	if n == 0 {
		return nil, nil //nolint:nilnil // nil means the whole page
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.refs.byNum[n]
	if r == nil {
		return nil, t.unknown(n)
	}
	copied := *r
	// A look at a frame begins inside the frame.
	for _, f := range t.frames {
		if f.parent == r.frame && f.owner == r.local && f.ownerLoader == r.loader {
			return &ref{refKey: refKey{f.id, f.loader, 0}}, nil
		}
	}
	return &copied, nil
}

func textsOf(lines []line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.text
	}
	return out
}

func chars(most int) int { return cmp.Or(most, DefaultChars) }

// viewed returns the lines that are on the screen, and says where the rest begins.
func (t eye) viewed(s *sight, q LookRequest) (*Look, error) {
	first, last := -1, -1
	for i, l := range s.lines {
		if l.view {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return t.part(s, q)
	}
	mark := nonce()
	head, foot := t.head(s, mark), "<<end "+mark+">>"
	var b strings.Builder
	b.WriteString(head)
	offset := 0
	for _, l := range s.lines[:first] {
		offset += utf8.RuneCountInString(l.text) + 1
	}
	if offset > 0 {
		fmt.Fprintf(&b, "… %s lines above (offset 1)\n", thousands(first))
	}
	room := chars(q.MaxChars) - utf8.RuneCountInString(b.String()) - len(foot) - 300
	var given []line
	next := first
	for ; next <= last; next++ {
		l := s.lines[next]
		n := utf8.RuneCountInString(l.text) + 1
		if l.view {
			if room -= n; room < 0 && len(given) > 0 {
				break
			}
			if room < 0 {
				l.text = beginning(l.text, n+room)
			}
			given = append(given, l)
			b.WriteString(l.text + "\n")
		}
		offset += n
	}
	if next < len(s.lines) {
		b.WriteString(t.below(s, next, offset))
	}
	b.WriteString(foot)
	t.mu.Lock()
	t.show(given)
	t.mu.Unlock()
	out := &Look{Tab: t.name, URL: shownURL(s.url), Title: cut(plain(s.title), MaxName), Text: b.String()}
	if next < len(s.lines) {
		out.Next = offset + 1
	}
	return out, nil
}

// beginning returns the beginning of a line that is too long for a look, and says how long
// the rest is.
func beginning(text string, room int) string {
	begin := cut(text, max(room-60, 20))
	left := utf8.RuneCountInString(text) - utf8.RuneCountInString(begin) + 1 // 1 for the "…" at the end of begin
	return fmt.Sprintf("%s %s more characters of this line: raise max_chars", begin, thousands(left))
}

// below returns a line about everything that follows the lines that were shown.
func (t eye) below(s *sight, next, offset int) string {
	controls := 0
	var heads []string
	at := offset
	for _, l := range s.lines[next:] {
		controls += len(l.shows)
		if l.heading && len(heads) < 4 {
			heads = append(heads, fmt.Sprintf("%s (offset %d)", quoted(strings.TrimLeft(l.text, "# "), 30), at+1))
		}
		at += utf8.RuneCountInString(l.text) + 1
	}
	text := fmt.Sprintf("… %s lines with %s controls below (offset %d)", thousands(len(s.lines)-next), thousands(controls), offset+1)
	if len(heads) > 0 {
		text += ": " + strings.Join(heads, ", ")
	}
	return cut(text, 290) + "\n"
}

// part returns a part of the whole text, or the lines that contain a word.
func (t eye) part(s *sight, q LookRequest) (*Look, error) {
	mark := nonce()
	head, foot := t.head(s, mark), "<<end "+mark+">>"
	room := chars(q.MaxChars) - utf8.RuneCountInString(head) - len(foot) - 100
	var b strings.Builder
	b.WriteString(head)
	total, next := 0, 0
	find := strings.ToLower(plain(q.Find))
	var given []line
	full, found := false, 0
	for _, l := range s.lines {
		n := utf8.RuneCountInString(l.text) + 1
		start := total
		total += n
		if start+1 < q.Offset || full {
			continue
		}
		if find != "" && !strings.Contains(strings.ToLower(l.text), find) {
			continue
		}
		found++
		if room -= n; room < 0 {
			if len(given) > 0 {
				full, next = true, start+1
				continue
			}
			l.text = beginning(l.text, n+room)
			full, next = true, total+1
		}
		given = append(given, l)
		b.WriteString(l.text + "\n")
	}
	if next > total {
		next = 0
	}
	switch {
	case find != "" && found == 0:
		fmt.Fprintf(&b, "… no line contains %s\n", quoted(q.Find, 60))
	case next > 0:
		fmt.Fprintf(&b, "… continue with offset %d of %d\n", next, total)
	case len(s.lines) == 0:
		b.WriteString("… the page shows nothing\n")
	}
	b.WriteString(foot)
	t.mu.Lock()
	t.show(given)
	t.mu.Unlock()
	return &Look{Tab: t.name, URL: shownURL(s.url), Title: cut(plain(s.title), MaxName), Text: b.String(), Next: next}, nil
}
