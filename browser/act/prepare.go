package act

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
)

// plan is a step whose facts were read.
type plan struct {
	e     *engine
	t     *tab
	step  Step
	aim   aim
	to    aim // element where a drag ends
	facts Facts
	raw   touched // facts of the element, as the page reports them
	entry int64   // entry of the history, for back and forward
	enter bool    // whether raw was read for the key Enter
	has   bool    // whether the element had the focus when raw was read
	used  bool
}

// aim is the element that a step is for.
type aim struct {
	frame frame
	local int
	n     int        // number of the element; 0 if it was not shown
	at    [2]float64 // place in the frame, for a point
	point bool
	looks bool // whether the page is only scrolled to the element, so it may be disabled
	keys  bool // whether keys go to the element, so it does not have to be at rest
}

func (a aim) key() refKey { return refKey{a.frame.id, a.frame.loader, a.local} }

// touched contains the facts that touch.js returns for an element.
type touched struct {
	Gone      bool   `json:"gone"`
	Role      string `json:"role"`
	Name      string `json:"name"`
	Label     bool   `json:"label"`
	Row       string `json:"row"`
	Field     string `json:"field"`
	URL       string `json:"url"`
	Origin    string `json:"origin"` // origin of the document; "null" if it is sandboxed
	Kind      string `json:"kind"`
	To        string `json:"to"`
	Method    string `json:"method"`
	Holds     string `json:"holds"` // names and values of the fields of a form that is sent, as JSON
	Editable  bool   `json:"editable"`
	Lines     bool   `json:"lines"` // whether the field takes several lines of text
	Select    bool   `json:"select"`
	Checkable bool   `json:"checkable"`
	Multiple  bool   `json:"multiple"`
}

// prepare reads what a step would do. It changes nothing.
func (t hand) prepare(ctx context.Context, s Step) (*plan, error) {
	ctx, cancel := context.WithTimeout(ctx, PrepareTime)
	defer cancel()
	p := &plan{e: t.e, t: t.tab, step: s}
	d := t.waiting()
	if d != nil && s.Do != DoDialog && s.Do != DoSwitch && s.Do != DoClose && s.Do != DoSave {
		return nil, d.held()
	}
	p.facts = Facts{On: t.facing(t.url()), Path: s.Path}
	switch s.Do {
	case DoOpen:
		p.facts.Kind, p.facts.To, p.facts.Method = KindNavigate, s.URL, "GET"
	case DoReload:
		p.facts.Kind, p.facts.To, p.facts.Method = KindNavigate, p.facts.On, "GET"
		t.mu.Lock()
		if t.method == "POST" {
			p.facts.Kind, p.facts.Method = KindSubmit, "POST"
		}
		t.mu.Unlock()
	case DoBack, DoForward:
		return p, p.history(ctx)
	case DoClick, DoHover, DoFill, DoPress, DoSelect, DoCheck, DoScroll, DoDrag, DoUpload:
		return p, p.look(ctx)
	case DoSave:
		p.facts.Kind = KindSave
		f, err := t.e.file(s.Download)
		if err != nil {
			return nil, err
		}
		p.facts.To, p.facts.Shown = f.from, f.name+" "+quoted(f.shown, MaxName)
	case DoPDF:
		p.facts.Kind, p.facts.To = KindSave, p.facts.On
	case DoDialog:
		if d == nil {
			return nil, &Refusal{Reason: ReasonUnknown, Message: "no dialog waits in tab " + t.name, Next: "look"}
		}
		p.facts.Kind, p.facts.Shown = KindConfirm, d.Kind+" "+quoted(d.Text, MaxName)
		if !s.yes() {
			p.facts.Kind = KindPoint
		}
	case DoEval:
		p.facts.Kind = KindEval
	case DoWait, DoSwitch, DoClose:
		p.facts.Kind = KindPoint
	}
	return p, nil
}

// history finds the document to which back or forward leads.
func (p *plan) history(ctx context.Context) error {
	t := p.t
	h, err := call(ctx, p.e.g, t.session(), page.GetNavigationHistory, cdp.Empty{})
	if err != nil {
		return t.fault(err, false)
	}
	i := int(h.CurrentIndex) - 1
	if p.step.Do == DoForward {
		i += 2
	}
	if i < 0 || i >= len(h.Entries) || h.Entries[i].URL == "about:blank" {
		return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("tab %s has no page to go %s to", t.name, p.step.Do), Next: "open a page"}
	}
	p.entry = h.Entries[i].ID
	p.facts.Kind, p.facts.To, p.facts.Method = KindNavigate, t.facing(h.Entries[i].URL), "GET"
	return nil
}

// look finds the element of a step and reads its facts.
func (p *plan) look(ctx context.Context) (err error) {
	t, s := p.t, p.step
	if p.aim, err = (hand{t}).find(ctx, s.Ref, s.XY, s.Do == DoPress); err != nil {
		return err
	}
	p.facts.Kind = KindPoint
	if p.aim.local == 0 {
		return nil // the step is for the page as a whole
	}
	key, _ := parseKey(s.Text)
	activates := s.Do == DoClick && s.Button != "right" && s.Button != "middle" || s.Do == DoCheck || s.Do == DoDrag
	enter := s.Do == DoPress && (key.name == "Enter" || key.name == "Space")
	p.enter = enter
	var is reading
	if is, err = (hand{t}).touchAs(ctx, p.aim, activates, enter); err != nil {
		return err
	}
	p.raw, p.has = is.touched, is.Has
	f, raw := &p.facts, p.raw
	hide := t.e.masks.hide
	f.On, f.Shown = hide(raw.URL), called(raw.Role, hide(raw.Name), hide(raw.Row))
	not := func(what, next string) error {
		return &Refusal{Reason: ReasonArgument, Message: fmt.Sprintf("[%d] %s is not %s", p.aim.n, f.Shown, what), Next: next}
	}
	switch s.Do {
	case DoClick, DoCheck:
		f.Kind, f.To, f.Method = KindPress, hide(raw.To), raw.Method
		if activates {
			f.Kind = Kind(cmp.Or(raw.Kind, string(KindPress)))
		}
		if s.Do == DoCheck {
			if f.Field = raw.Field; f.Kind == KindPress {
				f.Kind = KindType // a link or a submit button that calls itself a checkbox keeps its kind
			}
			if !raw.Checkable {
				return not("a checkbox", "click it")
			}
		}
		if raw.Select {
			return not("opened by a click", "choose an option with: select")
		}
	case DoPress:
		f.Kind = KindPress
		switch {
		case enter && (key.name == "Enter" || !raw.Editable) && (raw.Role == "link" || raw.Role == "button" || raw.Kind != string(KindPress)):
			f.Kind, f.To, f.Method = Kind(raw.Kind), hide(raw.To), raw.Method
		case raw.Editable && key.text != "":
			f.Kind, f.Field = KindType, raw.Field
		}
	case DoFill:
		f.Kind, f.Field = KindType, raw.Field
		if !raw.Editable {
			return not("a field for text", "use click, check, select or upload")
		}
		if strings.ContainsAny(s.Text, "\r\n") && !raw.Lines {
			// in such a field, Enter sends the form
			return not("a field for several lines", "leave the line breaks out; press Enter as a step of its own")
		}
		if s.Secret != "" {
			f.Kind, f.Secret = KindSecret, s.Secret
			if err := (hand{t}).mayType(p.aim, raw, s.Secret); err != nil {
				return err
			}
		}
	case DoSelect:
		f.Kind, f.Field = KindType, "text"
		if !raw.Select {
			return not("a list to select from", "click it")
		}
	case DoUpload:
		f.Kind, f.Field, f.To = KindUpload, "file", f.On
		if raw.Field != "file" {
			return not("a field for files", "use the number of the field that the page has for files")
		}
		if t.e.opts.Uploads <= 0 {
			return &Refusal{Reason: ReasonPolicy, Message: "this profile does not allow uploads", Next: "ask the person for a profile that allows uploads"}
		}
	case DoDrag:
		if p.to, err = (hand{t}).find(ctx, s.To, s.ToXY, false); err != nil {
			return err
		}
		if p.to.frame.session != p.aim.frame.session {
			return &Refusal{Reason: ReasonArgument, Message: "the drag leads into a frame of another site", Next: "drag within one frame"}
		}
		to, err := (hand{t}).touch(ctx, p.to, true, false)
		if err != nil {
			return err
		}
		// A drag that begins and ends in the same control clicks it. So such a drag is
		// allowed only between points, and only if a click of the control is just a press,
		// for example on a drawing. It is not known what a page does with any other drag,
		// as it is not known what it does with a click.
		f.Kind, f.Shown = KindPress, f.Shown+" to "+called(to.Role, hide(to.Name), hide(to.Row))
		if p.to.key() == p.aim.key() && (raw.Kind != string(KindPress) || s.XY == nil || s.ToXY == nil) || raw.Kind != string(KindPress) && raw.Kind == to.Kind && raw.To == to.To && raw.Method == to.Method {
			return &Refusal{Reason: ReasonArgument, Message: "the drag ends in the control where it begins", Next: "use click"}
		}
	case DoHover, DoScroll, DoOpen, DoBack, DoForward, DoReload, DoSave, DoPDF, DoWait, DoDialog, DoEval, DoSwitch, DoClose:
	}
	if f.Kind == KindSubmit && raw.Holds != "" {
		var holds [][2]string
		if err := json.Unmarshal([]byte(raw.Holds), &holds); err != nil || holds == nil {
			return &Refusal{Reason: ReasonLimit, Message: "the form contains more than can be shown to a person", Next: "empty its large fields", Err: err}
		}
		f.Sends = sends(holds, hide)
	}
	return nil
}

// sends returns the content of a form in words. If some of it is cut, a digest stands for
// all of it.
func sends(holds [][2]string, hide func(string) string) string {
	const most = 1000
	var all strings.Builder
	whole := sha256.New()
	short := false
	for _, h := range holds {
		name, value := hide(h[0]), hide(h[1])
		fmt.Fprintf(whole, "%d %s %d %s", len(name), name, len(value), value)
		part := fmt.Sprintf(", %s %s", quoted(name, MaxName), quoted(value, MaxName))
		if all.Len()+len(part) > most {
			short = true
			continue
		}
		short = short || utf8.RuneCountInString(name) > MaxName || utf8.RuneCountInString(value) > MaxName
		all.WriteString(part)
	}
	if short {
		fmt.Fprintf(&all, ", and more (sha256 %.16x of %d fields)", whole.Sum(nil), len(holds))
	}
	if all.Len() == 0 {
		return ""
	}
	return " sends " + all.String()[2:]
}

// find returns the element of a number or a point, or the element that has the focus, or
// the whole page.
func (t hand) find(ctx context.Context, n int, xy *Point, focused bool) (aim, error) {
	switch {
	case n != 0:
		t.mu.Lock()
		defer t.mu.Unlock()
		r := t.refs.byNum[n]
		if r == nil {
			return aim{}, t.unknown(n)
		}
		if !r.shown {
			return aim{}, &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("[%d] was not shown yet", n), Next: "look, and use a number that the look shows"}
		}
		f := t.frames[r.frame]
		if f == nil || f.loader != r.loader {
			return aim{}, t.unknown(n)
		}
		return aim{frame: *f, local: r.local, n: n}, nil
	case xy != nil:
		return t.under(ctx, *xy)
	case focused:
		return t.focused(ctx)
	}
	top, _ := t.frameOf(t.target)
	return aim{frame: top}, nil
}

// inner returns the frame that an element of a frame contains.
func (t hand) inner(ctx context.Context, f frame, local int) (frame, bool) {
	for _, c := range t.tree() {
		if c.parent == f.id && t.owner(ctx, c, f) == local {
			return c, true
		}
	}
	return frame{}, false
}

// focused returns the element to which keys go.
func (t hand) focused(ctx context.Context) (aim, error) {
	f, ok := t.frameOf(t.target)
	for depth := 0; ok && depth < 20; depth++ {
		var n int
		if err := t.run(ctx, f, "belljar.number(belljar.focused())", &n); err != nil {
			return aim{}, t.fault(err, false)
		}
		next, in := t.inner(ctx, f, n)
		if !in {
			return aim{frame: f, local: n}, nil
		}
		f = next
	}
	return aim{}, &Refusal{Reason: ReasonFailed, Message: "nothing has the focus", Next: "name a field by ref"}
}

// under returns the element at a point of the last picture.
func (t hand) under(ctx context.Context, xy Point) (aim, error) {
	if err := eye(t).freshPicture(ctx); err != nil {
		return aim{}, err
	}
	f, ok := t.frameOf(t.target)
	x, y := float64(xy.X), float64(xy.Y)
	for depth := 0; ok && depth < 20; depth++ {
		var hit struct {
			N     int     `json:"n"`
			Frame bool    `json:"frame"`
			X     float64 `json:"x"`
			Y     float64 `json:"y"`
		}
		if err := t.run(ctx, f, fmt.Sprintf("belljar.at(%v, %v)", x, y), &hit); err != nil {
			return aim{}, t.fault(err, false)
		}
		if hit.N == 0 {
			break
		}
		if hit.Frame {
			if next, in := t.inner(ctx, f, hit.N); in {
				f, x, y = next, hit.X, hit.Y
				continue
			}
		}
		return aim{frame: f, local: hit.N, at: [2]float64{x, y}, point: true}, nil
	}
	return aim{}, &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("no element is at %d,%d", xy.X, xy.Y), Next: "take a picture, and write a point of it"}
}

// reading contains the facts of an element and whether it has the focus. An element may
// lose the focus and still be the same.
type reading struct {
	touched
	Has bool `json:"has"`
}

// ask reads the facts of an element.
func (t hand) ask(ctx context.Context, a aim, click, enter bool) (reading, error) {
	var r reading
	o := struct {
		Click bool `json:"click"`
		Enter bool `json:"enter"`
	}{click, enter}
	if err := t.run(ctx, a.frame, fmt.Sprintf("belljar.facts(%d, %s)", a.local, argument(o)), &r); err != nil {
		if errors.Is(err, errLeft) && a.n != 0 {
			t.mu.Lock()
			defer t.mu.Unlock()
			return r, t.unknown(a.n)
		}
		return r, t.fault(err, false)
	}
	return r, nil
}

// again returns g, changed so that it takes hold of the element of a step only if the
// element still is what was read.
func (p *plan) again(g grip) grip {
	if p.gripped() {
		g.Expected, g.Enter = &p.raw, p.enter
	}
	return g
}

// gripped reports whether one script takes hold of the element of the step and reads its
// facts again immediately before that.
func (p *plan) gripped() bool {
	s := p.step
	return s.Ref != 0 && (s.Do == DoPress || s.Do == DoSelect || s.Do == DoFill && s.Secret == "")
}

// changedBetween returns the refusal of a step whose facts differ from the facts that were
// decided about.
func changedBetween() error {
	return &Refusal{Reason: ReasonChanged, Message: "the page changed what the step would do, between the decision and the act", Next: "look again"}
}

// touch reads the facts of an element, and refuses an element that is not what was shown.
func (t hand) touch(ctx context.Context, a aim, click, enter bool) (touched, error) {
	r, err := t.touchAs(ctx, a, click, enter)
	return r.touched, err
}

// touchAs is touch, and also reports whether the element has the focus.
func (t hand) touchAs(ctx context.Context, a aim, click, enter bool) (reading, error) {
	r, err := t.ask(ctx, a, click, enter)
	if err != nil {
		return r, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := t.refs.byNum[a.n]
	hide := t.e.masks.hide
	switch {
	case r.Gone && shown != nil:
		return r, &Refusal{Reason: ReasonStale, Message: fmt.Sprintf("[%d] %s is gone: the page was drawn anew", a.n, called(shown.role, hide(shown.name), hide(shown.row))), Next: "look again"}
	case r.Gone:
		return r, &Refusal{Reason: ReasonStale, Message: "the element at that point is gone", Next: "look again"}
	case a.n != 0 && shown == nil:
		return r, t.unknown(a.n)
	case shown != nil && shown.sum != meaning(r.Role, r.Name, r.Row):
		return r, &Refusal{Reason: ReasonStale, Message: fmt.Sprintf("[%d] now reads %s and was %s", a.n, called(r.Role, hide(r.Name), hide(r.Row)), called(shown.role, hide(shown.name), hide(shown.row))), Next: "look again"}
	}
	return r, nil
}

// nameOf returns the name of an element in the words of the look.
func (t hand) nameOf(a aim) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.refs.byNum[a.n]; r != nil {
		return fmt.Sprintf("[%d] %s", a.n, called(r.role, t.e.masks.hide(r.name), ""))
	}
	return "another element"
}
