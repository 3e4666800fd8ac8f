package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// guard is a tab whose pages take input only from a step.
type guard struct{ *tab }

// grip describes how an element is taken hold of for input.
type grip struct {
	Guard  bool `json:"guard"`  // whether the guard is armed for the element
	Keys   bool `json:"keys"`   // whether the input is from keys, not from the mouse
	Focus  bool `json:"focus"`  // whether the element gets the focus
	Select bool `json:"select"` // whether the content of the element is selected as well
	Ask    bool `json:"ask"`    // whether the facts of the element are read then
	// Expected is what the element has to be before it is taken hold of: the facts that
	// were read when the step was prepared. Enter reports that they were read for a step
	// that presses Enter.
	Expected *touched `json:"expected,omitempty"`
	Enter    bool     `json:"enter"`
	// Option is the number of the option that the next key selects, and Text is its text.
	Option int    `json:"option,omitempty"`
	Text   string `json:"text,omitempty"`

	// Ups is the number of keys that are pressed; the guard is disarmed when the last one
	// is released.
	Ups int `json:"ups,omitempty"`
	// has reports that the element had the focus when it was read.
	has bool
	// taken waits until Chrome reports that the page has taken the keys. It is called if
	// the page does not report that the last key was released.
	taken func(context.Context) error
}

// grip takes hold of an element. It returns the facts of the element at that time, if g
// asks for them.
func (t guard) grip(ctx context.Context, a aim, g grip) (touched, error) {
	var r struct {
		OK      bool    `json:"ok"`
		Changed bool    `json:"changed"`
		F       touched `json:"f"`
	}
	if err := t.run(ctx, a.frame, fmt.Sprintf("belljar.grip(%d, %s)", a.local, argument(g)), &r); err != nil {
		// A handler of the page may have run since the element has the focus.
		return r.F, t.fault(err, g.Focus && errors.Is(err, context.DeadlineExceeded))
	}
	switch {
	case r.Changed: // the element, or what it does, has changed
		if _, err := hand(t).touch(ctx, a, false, g.Enter); err != nil {
			return r.F, err
		}
		return r.F, changedBetween()
	case !r.OK:
		return r.F, &Refusal{Reason: ReasonNotReady, Message: hand(t).nameOf(a) + " does not take the focus", Next: "click it, or look again"}
	}
	return r.F, nil
}

// tally says what happened to the input of a step.
type tally struct {
	Hits   int  `json:"hits"`   // events that reached the element
	Misses int  `json:"misses"` // events that were kept from other elements
	Took   bool `json:"took"`   // whether the field has taken a text, or has another text than before
	Empty  bool `json:"empty"`  // whether the field has no text
	Left   bool `json:"-"`      // whether the document was left, or waits for a dialog, before the tally could be read
}

// lostFocus returns the message of a step whose keys did not all reach their element; it is
// empty if they all did.
func (t tally) lostFocus(name string) string {
	if t.Misses == 0 {
		return ""
	}
	return name + " lost the focus or was left during the step, and the remaining keys were dropped"
}

// endOf decides how a step ends: became is the tally of its input, and err is the error
// that ended the input. If input was kept from another element, missed says what happened;
// missed is empty if that does not matter. A message in missed comes before err: a document
// that replaced another may have kept all input from itself. over reports that the step
// ends here. It is also true, without an error, if the input has led to a dialog or another
// document.
func (t guard) endOf(became tally, err error, missed, next string) (over bool, _ error) {
	switch {
	case missed != "":
		return true, &Refusal{Reason: ReasonNotReady, Message: missed, Next: next, Ran: became.Hits > 0 || became.Left}
	case inputOver(err):
		return true, nil
	case err != nil:
		return true, t.fault(err, true)
	}
	return false, nil
}

// during takes hold of an element, arms the guard in all documents of the tab, calls f, and
// returns the tally of its input. f gets the facts of the element, if g asks for them.
func (t guard) during(ctx context.Context, a aim, g grip, f func(touched) error) (own tally, err error) {
	others := slices.DeleteFunc(t.tree(), func(fr frame) bool { return fr.id == a.frame.id })
	// A frame that does not answer must not delay the others.
	all := func(ctx context.Context, f func(context.Context, frame)) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, fr := range others {
			wg.Go(func() { f(ctx, fr) })
		}
		wg.Wait()
	}
	after := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, InputTime)
	defer cancel()
	g.Guard = true
	o := argument(g)
	all(ctx, func(ctx context.Context, fr frame) { _ = t.run(ctx, fr, "belljar.arm(0, "+o+")", nil) })
	left, retry := false, true
	if g.Ups > 0 && g.has {
		own, left, retry, err = t.stroke(ctx, a, g, f)
	}
	if retry {
		own, left, err = t.held(ctx, a, g, f)
	}
	if !left {
		var mu sync.Mutex
		all(after, func(ctx context.Context, fr frame) {
			var r tally
			_ = t.run(ctx, fr, "belljar.disarm()", &r)
			mu.Lock()
			defer mu.Unlock()
			own.Hits, own.Misses = own.Hits+r.Hits, own.Misses+r.Misses
		})
	}
	left = left || a.frame.leftIn(t.tab)
	own.Left = left
	if left && own.Misses == 0 {
		own.Misses = t.strays(after, a.frame.id)
	}
	if left && own.Misses == 0 { // the input had its effect
		own.Hits, own.Took = max(own.Hits, 1), true
	}
	return own, err
}

// held takes hold of an element, calls f, and lets go. left reports that a dialog or
// another document keeps the page from returning the tally of the input.
func (t guard) held(ctx context.Context, a aim, g grip, f func(touched) error) (own tally, left bool, err error) {
	after := running{err: errLeft}
	is, err := t.grip(ctx, a, g)
	if err == nil {
		err = hand(t).takesInput(a.frame)
	}
	if err == nil {
		if g.Ups > 0 {
			after = beginScript(ctx, t.tab, a.frame, fmt.Sprintf("belljar.disarmAfter(%d)", g.Ups))
		}
		err = f(is)
	}
	came := after.err == nil && after.came(ctx, t.stop(), upTime)
	if err == nil && g.Ups > 0 && !came {
		err = g.taken(ctx)
	}
	left = t.disarm(context.WithoutCancel(ctx), a, after, came, &own) != nil
	return own, left, err
}

// stroke sends keys to an element that has the focus, and does not wait until the page has
// taken hold of the element: a guard that is not armed lets no key through. So nothing was
// done if the element is another one by now, or if the keys came before the guard was
// armed. retry reports that nothing was done, so held may try.
func (t guard) stroke(ctx context.Context, a aim, g grip, f func(touched) error) (own tally, left, retry bool, err error) {
	if err := hand(t).takesInput(a.frame); err != nil {
		return own, false, false, err
	}
	script := beginScript(ctx, t.tab, a.frame, fmt.Sprintf("belljar.stroke(%d, %s)", a.local, argument(g)))
	if err = script.err; err == nil {
		err = f(touched{})
	}
	if err != nil {
		return own, false, false, t.fault(err, false)
	}
	came := script.came(ctx, t.stop(), upTime)
	if !came {
		err = g.taken(ctx)
	}
	left = t.disarm(context.WithoutCancel(ctx), a, script, came, &own) != nil
	if came && !left && own.Hits == 0 { // keys that are still on their way must not arrive after the keys are sent again
		err = g.taken(ctx)
	}
	return own, left, !left && own.Hits == 0 && err == nil, err
}

// strays returns how many input events came to the document that replaced another in a
// frame. Its guard is closed from the start, so the page itself got none of them.
func (t guard) strays(ctx context.Context, id string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var r tally
	if f, ok := t.frameOf(id); ok {
		_ = t.run(ctx, f, "belljar.disarm()", &r)
	}
	return r.Misses
}

// maxFrameDepth is the largest number of frames around an element that are checked.
const maxFrameDepth = 20

// navigations returns how often the documents of a frame, and of the frames around it, have
// asked for another document in their place. over reports that none of these requests is in
// progress. t.mu is held.
func (t guard) navigations(id string) (n int, over bool) {
	over = true
	for f, depth := t.frames[id], 0; f != nil && depth < maxFrameDepth; f, depth = t.frames[f.parent], depth+1 {
		n += f.navigations
		over = over && f.over == f.navigations
	}
	return n, over
}

// stillHit reports whether an element is still hit at the place to which the mouse was
// moved. before is the number of navigations at an earlier time. If the page has navigated
// since, stillHit refuses the click before its first press, unless the page stays where it
// is, for example because the answer is a file. The page answers the question about the
// element only after it has reported the navigations that it asked for.
func (t guard) stillHit(ctx context.Context, a aim, before int, at spot) (hit bool, err error) {
	if err := t.run(ctx, a.frame, fmt.Sprintf("belljar.hits(%d, %v, %v)", a.local, at.frameX, at.frameY), &hit); err != nil {
		return false, t.fault(err, false)
	}
	t.mu.Lock()
	n, _ := t.navigations(a.frame.id)
	t.mu.Unlock()
	if n != before {
		t.until(ctx, stayTime, func() bool {
			_, over := t.navigations(a.frame.id)
			f := t.frames[a.frame.id]
			return over || t.dialog != nil || f == nil || f.loader != a.frame.loader
		})
		t.mu.Lock()
		_, over := t.navigations(a.frame.id)
		t.mu.Unlock()
		if !over {
			return false, t.fault(errLeft, false)
		}
	}
	return hit, hand(t).takesInput(a.frame)
}

// stayTime is how long a click waits at most to see whether the page stays where it is.
const stayTime = time.Second

// upTime is how long the release of a key may take to reach its element before Chrome is
// asked for it. The release goes elsewhere if the page has moved the focus into another
// frame.
const upTime = 50 * time.Millisecond

// disarm disarms the guard in the frame of an element, unless the script after has done so.
func (t guard) disarm(ctx context.Context, a aim, after running, came bool, own *tally) error {
	switch {
	case came && after.wait(ctx, own) == nil:
		return nil
	case after.err == nil:
		after.drop()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return t.run(ctx, a.frame, "belljar.disarm()", own)
}
