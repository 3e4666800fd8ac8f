package act

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// choose selects an option by its text, with the keys of the list. If the list allows
// several options, text may name several, one per line.
func (t hand) choose(ctx context.Context, p *plan, text string) error {
	if strings.Contains(text, "\n") {
		return t.chooseSeveral(ctx, p, strings.Split(text, "\n"))
	}
	l, err := t.option(ctx, p.aim, plain(text))
	switch {
	case err != nil:
		return t.fault(err, false)
	case l.N == 0 || l.Steps < 0:
		what := "has no option"
		if l.N != 0 {
			what = "has that option disabled:"
		}
		for i, s := range l.Some {
			l.Some[i] = quoted(t.e.masks.hide(s), 40)
		}
		return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("%s %s %s", t.nameOf(p.aim), what, quoted(text, MaxName)), Next: "write one of its options, such as " + strings.Join(l.Some, ", ")}
	case l.Selected:
		return nil
	}
	p.aim.keys = true
	if _, err := t.reachable(ctx, p.aim); err != nil {
		return err
	}
	became, err := p.selectOne(ctx, l)
	if over, err := guard(t).endOf(became, err, became.lostFocus(t.nameOf(p.aim)), "look"); over {
		return err
	}
	now, err := t.option(ctx, p.aim, plain(text))
	if err == nil && !now.Selected {
		t.settle(ctx, time.Second) // the page may change the selection later than the key
		now, err = t.option(ctx, p.aim, plain(text))
	}
	if err != nil && !inputOver(err) {
		return t.fault(err, true)
	}
	if err == nil && !now.Selected {
		return &Refusal{Reason: ReasonFailed, Message: t.nameOf(p.aim) + " has another option selected, not the one in the step", Next: "look", Ran: true}
	}
	return nil
}

// optionOf is an option of a list that was looked up by its text.
type optionOf struct {
	N        int      `json:"n"` // number of the option; 0 if the list does not have it
	Text     string   `json:"text"`
	Selected bool     `json:"selected"` // whether only this option is selected
	Steps    int      `json:"steps"`    // number of keys from the first option to this one, or -1 if no key leads to it
	Some     []string `json:"some"`     // texts of the first options of the list
	Several  bool     `json:"several"`  // whether the list shows several options at the same time
}

// option finds the option of a list by its text.
func (t hand) option(ctx context.Context, a aim, text string) (r optionOf, err error) {
	err = t.run(ctx, a.frame, fmt.Sprintf("belljar.option(%d, %s)", a.local, argument(text)), &r)
	return r, err
}

// selectOne selects an option and no other, by keys.
func (p *plan) selectOne(ctx context.Context, l optionOf) (tally, error) {
	t, g := hand{p.t}, p.again(onList)
	keys := keysOf("Home")
	if l.Several {
		keys = slices.Concat(keys, slices.Repeat(keysOf("ArrowDown"), min(l.Steps, maxOptions)))
	} else if g.Option, g.Text = l.N, l.Text; l.Steps > 0 {
		keys = keysOf("ArrowDown")
	}
	return guard(t).during(ctx, p.aim, g, func(touched) error { return keyboard(t).press(ctx, p.aim.frame.session, keys...) })
}

// chooseSeveral selects the options with these texts, and no others, in a list that allows
// several.
func (t hand) chooseSeveral(ctx context.Context, p *plan, texts []string) error {
	if !p.raw.Multiple {
		return &Refusal{Reason: ReasonArgument, Message: t.nameOf(p.aim) + " accepts one option only", Next: "write one option"}
	}
	for i, text := range texts {
		texts[i] = plain(text)
	}
	// An option is identified by its index among the options that keys reach, in their
	// order.
	var r struct {
		Places []int `json:"places"`
		None   int   `json:"none"` // index of a text that no option has, or -1
	}
	err := t.run(ctx, p.aim.frame, fmt.Sprintf(`((list, texts) => {
  const at = texts.map((t) => list.findIndex((o) => belljar.tidy(o.text) === t));
  return { places: Array.from(new Set(at)).sort((a, b) => a - b), none: at.indexOf(-1) };
})(belljar.reach(belljar.element(%d)), %s)`, p.aim.local, argument(texts)), &r)
	switch {
	case err != nil:
		return t.fault(err, false)
	case r.None >= 0:
		return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("%s has no option %s", t.nameOf(p.aim), quoted(texts[r.None], MaxName)), Next: "write its options, one per line"}
	}
	p.aim.keys = true
	if _, err := t.reachable(ctx, p.aim); err != nil {
		return err
	}
	// The first option is selected alone, and the others are added to it.
	keys := slices.Concat(keysOf("Home"), slices.Repeat(keysOf("ArrowDown"), min(r.Places[0], maxOptions)))
	for i, at := range r.Places[1:] {
		keys = slices.Concat(keys, slices.Repeat(keysOf("Control+ArrowDown"), min(at-r.Places[i], maxOptions)), keysOf("Control+Space"))
	}
	became, err := guard(t).during(ctx, p.aim, p.again(onList), func(touched) error { return keyboard(t).press(ctx, p.aim.frame.session, keys...) })
	if over, err := guard(t).endOf(became, err, became.lostFocus(t.nameOf(p.aim)), "look"); over {
		return err
	}
	selected := func() (is bool, err error) {
		var now []string
		err = t.run(ctx, p.aim.frame, fmt.Sprintf(`((e) => { const list = belljar.reach(e); return Array.from(e.selectedOptions, (o) => list.indexOf(o) + " " + belljar.tidy(o.text)) })(belljar.element(%d))`, p.aim.local), &now)
		want := map[string]bool{}
		for _, n := range now {
			place, text, _ := strings.Cut(n, " ")
			if i, err := strconv.Atoi(place); err == nil && slices.Contains(r.Places, i) && slices.Contains(texts, text) {
				want[n] = true
			}
		}
		return len(want) == len(r.Places) && len(now) == len(want), err
	}
	is, err := selected()
	if err == nil && !is {
		t.settle(ctx, time.Second) // the page may change the selection later than the keys
		is, err = selected()
	}
	if err != nil && !inputOver(err) {
		return t.fault(err, true)
	}
	if err == nil && !is {
		return &Refusal{Reason: ReasonFailed, Message: t.nameOf(p.aim) + " has other options selected, not those in the step", Next: "look", Ran: true}
	}
	return nil
}

// maxOptions is the largest number of options that keys move over in a list.
const maxOptions = 2000

// onList is the grip for a list whose options keys select.
var onList = grip{Keys: true, Focus: true}
