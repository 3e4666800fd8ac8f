package act

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// typedAtOnce is how many characters are sent before the page must have taken them.
const typedAtOnce = 16

// keyboard is a tab in which keys are typed.
type keyboard struct{ *tab }

// key presses a key in an element.
func (t keyboard) key(ctx context.Context, p *plan) error {
	k, why := parseKey(p.step.Text)
	if why != "" {
		return &Refusal{Reason: ReasonArgument, Message: why, Next: "write a key"}
	}
	var sent []pending[cdp.Empty]
	g := p.again(grip{Keys: true, Focus: p.step.Ref != 0, Ups: 1})
	g.has = p.has && p.gripped()
	g.taken = func(ctx context.Context) error { return t.taken(ctx, sent) }
	became, err := guard(t).during(ctx, p.aim, g, func(touched) error {
		sent = t.strike(p.aim.frame.session, k.seq)
		return nil
	})
	for _, s := range sent {
		s.drop()
	}
	missed := ""
	switch {
	case became.Hits > 0 || became.Misses == 0:
	case became.Left: // a key is several events, and the page before may have got some
		missed = "the page was left at the last moment: the next page did not get the key, and the page that was left may have got it"
	default:
		missed = "the focus moved, or the element with the focus changed, at the last moment, and the page did not get the key"
	}
	_, err = guard(t).endOf(became, err, missed, "look again")
	return err
}

// typeKeys types text key by key into a field whose document takes input. A character that
// no key types is inserted, and so is a line break: the key Enter would send a form or a
// message, which is another act than to fill a field.
func (t keyboard) typeKeys(ctx context.Context, a aim, text string) error {
	var begun bool
	for some := range slices.Chunk([]rune(text), typedAtOnce) {
		if begun && a.frame.leftIn(t.tab) {
			return errLeft
		}
		begun = true
		var sent []pending[cdp.Empty]
		for _, r := range some {
			if r >= ' ' && r <= '~' {
				sent = append(sent, t.strike(a.frame.session, kb.Encode(r))...)
			} else {
				sent = append(sent, begin(t.e.g, a.frame.session, input.InsertText, input.InsertTextParams{Text: string(r)}))
			}
		}
		if err := t.taken(ctx, sent); err != nil {
			return err
		}
	}
	return nil
}

// strike sends the events of one key without waiting for them. They arrive in their order,
// so the key does not stay down, whatever the page does with the first event.
func (t keyboard) strike(session string, seq []*input.DispatchKeyEventParams) (sent []pending[cdp.Empty]) {
	if len(seq) == 3 { // the events are down, character and up; down can contain the character
		down := *seq[0]
		down.Text, down.UnmodifiedText = seq[1].Text, seq[1].UnmodifiedText
		seq = []*input.DispatchKeyEventParams{&down, seq[2]}
	}
	for _, k := range seq {
		sent = append(sent, begin(t.e.g, session, input.DispatchKeyEvent, *k))
	}
	return sent
}

// taken waits until the page has taken the events that were sent, a dialog has opened, or
// the page was left.
func (t keyboard) taken(ctx context.Context, sent []pending[cdp.Empty]) (err error) {
	for _, p := range sent {
		if err != nil {
			p.drop()
			continue
		}
		err = took(ctx, t.tab, p)
	}
	return err
}

// press sends the events of keys, one after the other.
func (t keyboard) press(ctx context.Context, session string, keys ...[]*input.DispatchKeyEventParams) error {
	for some := range slices.Chunk(keys, typedAtOnce) {
		var sent []pending[cdp.Empty]
		for _, seq := range some {
			sent = append(sent, t.strike(session, seq)...)
		}
		if err := t.taken(ctx, sent); err != nil {
			return err
		}
	}
	return nil
}
