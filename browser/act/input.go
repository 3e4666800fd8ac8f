package act

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
)

// spot is a place where an element can be hit, in coordinates of its session's view.
type spot struct {
	x, y           float64
	frameX, frameY float64 // the same point in the frame of the element
}

// reachable waits until an element can be hit, and returns the place.
func (t hand) reachable(ctx context.Context, a aim) (spot, error) {
	ctx, cancel := context.WithTimeout(ctx, ReadyTime+2*time.Second)
	defer cancel()
	var r struct {
		Why    string  `json:"why"`
		X      float64 `json:"x"`
		Y      float64 `json:"y"`
		Left   float64 `json:"left"`
		Top    float64 `json:"top"`
		Width  float64 `json:"width"`
		Height float64 `json:"height"`
		By     struct {
			N    int    `json:"n"`
			Role string `json:"role"`
			Name string `json:"name"`
		} `json:"by"`
	}
	o := map[string]any{"most": (ReadyTime - 500*time.Millisecond).Milliseconds()}
	if a.point {
		o["at"] = a.at
	}
	o["looks"], o["keys"] = a.looks, a.keys
	if err := t.run(ctx, a.frame, fmt.Sprintf("belljar.ready(%d, %s)", a.local, argument(o)), &r); err != nil {
		return spot{}, t.fault(err, false)
	}
	name := t.nameOf(a)
	no := func(what, next string) (spot, error) {
		return spot{}, &Refusal{Reason: ReasonNotReady, Message: name + " " + what, Next: next}
	}
	switch r.Why {
	case "":
	case "gone":
		return spot{}, &Refusal{Reason: ReasonStale, Message: name + " is gone: the page was drawn anew", Next: "look again"}
	case "disabled":
		return no("is disabled", "first do what the page requires before it")
	case "invisible":
		return no("cannot be seen", "look again")
	case "moving":
		return no("does not stop moving", "wait, and try again")
	case "covered":
		by := called(r.By.Role, t.e.masks.hide(r.By.Name), "")
		t.mu.Lock()
		if n := t.refs.shownAs(refKey{a.frame.id, a.frame.loader, r.By.N}); n != 0 {
			by = fmt.Sprintf("[%d] %s", n, by)
		}
		t.mu.Unlock()
		return no("is covered by "+by, "close or leave what covers it, or look again")
	default:
		return no("is out of sight", "scroll, or look again")
	}
	return t.place(ctx, a, spot{x: r.X, y: r.Y, frameX: r.X, frameY: r.Y}, r.Left, r.Top, r.Width, r.Height)
}

// place converts a point of a frame into a point of its session, and checks that no frame
// around it is covered there.
func (t hand) place(ctx context.Context, a aim, p spot, left, top, width, height float64) (spot, error) {
	if a.frame.id == t.target {
		return p, nil
	}
	g := t.e.g
	v := t.viewTop(a.frame.session)
	out := p
	if v != a.frame.id { // the frame is inside other frames of its process
		defer t.release(a.frame.session)
		e, err := object(ctx, t.tab, a.frame, fmt.Sprintf("belljar.element(%d)", a.local))
		if err != nil {
			return p, t.fault(err, false)
		}
		box, err := call(ctx, g, a.frame.session, dom.GetBoxModel, dom.GetBoxModelParams{ObjectID: e})
		if err != nil || box.Model == nil || len(box.Model.Border) < 8 || width < 1 || height < 1 {
			return p, &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + " has no place on the page", Next: "look again", Err: err}
		}
		q := box.Model.Border
		out.x, out.y = q[0]+(p.x-left)*(q[2]-q[0])/width, q[1]+(p.y-top)*(q[5]-q[1])/height
	}
	return out, t.uncovered(ctx, a)
}

// uncovered checks, for each frame around an element, that the element of the frame is not
// covered: input to a session of its own would reach an element that people do not see.
func (t hand) uncovered(ctx context.Context, a aim) error {
	f := a.frame
	for depth := 0; f.id != t.target && depth < maxFrameDepth; depth++ {
		parent, ok := t.frameOf(f.parent)
		if !ok {
			return t.fault(errLeft, false)
		}
		n := t.owner(ctx, f, parent)
		var r struct {
			Why string `json:"why"`
			By  struct {
				Role string `json:"role"`
				Name string `json:"name"`
			} `json:"by"`
		}
		if err := t.run(ctx, parent, fmt.Sprintf(`belljar.ready(%d, {most: 300})`, n), &r); err != nil {
			return t.fault(err, false)
		}
		if r.Why != "" {
			why := "its frame cannot be reached: " + r.Why
			if r.Why == "covered" {
				why = "its frame is covered by " + called(r.By.Role, t.e.masks.hide(r.By.Name), "")
			}
			return &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + ": " + why, Next: "close or leave what covers it, or look again"}
		}
		f = parent
	}
	return nil
}

// click presses and releases a button of the mouse over an element.
func (t hand) click(ctx context.Context, a aim, button string) error {
	at, err := t.reachable(ctx, a)
	if err != nil {
		return err
	}
	b, count := input.MouseButtonLeft, int64(1)
	switch button {
	case "right":
		b = input.MouseButtonRight
	case "middle":
		b = input.MouseButtonMiddle
	case "double":
		count = 2
	}
	s := a.frame.session
	became, err := guard(t).during(ctx, a, grip{}, func(touched) error {
		at, err := t.over(ctx, a, at)
		if err != nil {
			return err // no button was pressed
		}
		for c := int64(1); c <= count; c++ {
			m := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, X: at.x, Y: at.y, Button: b, Buttons: buttons[b], ClickCount: c}
			err := send(ctx, t.tab, s, input.DispatchMouseEvent, m)
			m.Type, m.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
			if err != nil {
				begin(t.e.g, s, input.DispatchMouseEvent, m).drop() // release the button
				return err
			}
			if err := send(ctx, t.tab, s, input.DispatchMouseEvent, m); err != nil {
				return err
			}
		}
		return nil
	})
	missed := ""
	if became.Hits == 0 && became.Misses > 0 {
		missed = t.nameOf(a) + missedElement
		became.Left = became.Left && count > 1 // a single press reaches only one document
	}
	if over, err := guard(t).endOf(became, err, missed, "look again"); over {
		return err
	}
	if became.Hits == 0 {
		return &Refusal{Reason: ReasonNotReady, Message: "the click did not reach " + t.nameOf(a), Next: "look again", Ran: true}
	}
	return nil
}

// missedElement is the end of the message of a step whose input was withheld because
// something else was in the place of its element.
const missedElement = " was covered, moved, changed or left at the last moment, and the element in its place got no input"

// maxMoves is how often the mouse is moved to an element that is elsewhere after each move.
const maxMoves = 3

// over moves the mouse to a place where an element can be hit, and returns the place where
// it can be hit then: many controls look different under the mouse, and some have no size
// until their other picture has loaded.
func (t hand) over(ctx context.Context, a aim, at spot) (spot, error) {
	t.mu.Lock()
	before, _ := guard(t).navigations(a.frame.id)
	t.mu.Unlock()
	for n := 1; ; n++ {
		if err := send(ctx, t.tab, a.frame.session, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.x, Y: at.y}); err != nil {
			return at, t.fault(err, false)
		}
		hit, err := guard(t).stillHit(ctx, a, before, at)
		switch {
		case err != nil || hit:
			return at, err
		case n == maxMoves:
			return at, &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + missedElement, Next: "look again"}
		}
		if at, err = t.reachable(ctx, a); err != nil {
			return at, err
		}
	}
}

var buttons = map[input.MouseButton]int64{input.MouseButtonLeft: 1, input.MouseButtonRight: 2, input.MouseButtonMiddle: 4}

// hover moves the mouse over an element.
func (t hand) hover(ctx context.Context, a aim) error {
	at, err := t.reachable(ctx, a)
	if err != nil {
		return err
	}
	if err := t.takesInput(a.frame); err != nil {
		return err
	}
	err = send(ctx, t.tab, a.frame.session, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.x, Y: at.y})
	if err != nil && !inputOver(err) {
		return t.fault(err, true)
	}
	return nil
}

// insert puts a secret into a field that has the focus. It sends no input to Chrome: input
// goes to the element that has the focus when the input arrives, and a frame of another
// site can take the focus, in a document that loaded after the guard was armed. A script of
// ours reaches only its own document, and checks and fills the field without a pause
// between.
func (t hand) insert(ctx context.Context, a aim, fieldType, text string) error {
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := t.takesInput(a.frame); err != nil {
		return err
	}
	script := beginScript(within, t.tab, a.frame, fmt.Sprintf("belljar.insert(%d, %s, %s)", a.local, argument(fieldType), argument(text)))
	if script.err != nil {
		return t.fault(script.err, false)
	}
	var ok bool
	err := script.wait(within, &ok)
	switch {
	case errors.Is(err, errBlocked): // a handler of the field opened a dialog, so the field is filled
		return nil
	case err != nil: // a document that was left may have been filled before
		return t.fault(err, true)
	case !ok:
		return &Refusal{Reason: ReasonNotReady, Message: t.nameOf(a) + " lost the focus or became another field before it was filled", Next: "look again"}
	}
	return nil
}
