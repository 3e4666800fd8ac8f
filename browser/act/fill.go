package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// fill replaces the text of a field.
func (t hand) fill(ctx context.Context, p *plan, text string) error {
	if p.step.Secret != "" {
		return p.fillSecret(ctx, text)
	}
	if forms, ok := dateForms[p.raw.Role]; ok {
		return p.fillDate(ctx, text, forms)
	}
	s := p.aim.frame.session
	became, err := guard(t).during(ctx, p.aim, p.again(inField), func(now touched) error {
		if err := p.same(now); err != nil {
			return err
		}
		if text == "" {
			return keyboard(t).press(ctx, s, kb.Encode('\b'))
		}
		if len([]rune(text)) > TypedKeys {
			return send(ctx, t.tab, s, input.InsertText, input.InsertTextParams{Text: text})
		}
		return keyboard(t).typeKeys(ctx, p.aim, text)
	})
	if over, err := guard(t).endOf(became, err, became.lostFocus(t.nameOf(p.aim)), "look again"); over {
		return err
	}
	switch {
	case became.Hits == 0:
		return &Refusal{Reason: ReasonNotReady, Message: "the text did not reach " + t.nameOf(p.aim), Next: "look again", Ran: true}
	case !became.Took && (text != "" || !became.Empty):
		return &Refusal{Reason: ReasonFailed, Message: "the page refused what was typed, and " + t.nameOf(p.aim) + " has not changed", Next: "use what the page offers next to the field", Ran: true}
	}
	return nil
}

// inField is the grip for a field whose text is replaced by keys.
var inField = grip{Keys: true, Focus: true, Select: true, Ask: true}

// same refuses a field if the page changed it to another field when it got the focus.
func (p *plan) same(now touched) error {
	// The text around the field may have changed: the focus shows hints and proposals.
	was := p.raw
	was.Row = now.Row
	if now != was {
		return &Refusal{Reason: ReasonChanged, Message: (hand{p.t}).nameOf(p.aim) + " became another field when it got the focus", Next: "look again"}
	}
	return nil
}

// fillSecret puts a secret into a field.
func (p *plan) fillSecret(ctx context.Context, text string) error {
	t := hand{p.t}
	now, err := guard(t).grip(ctx, p.aim, grip{Focus: true, Select: true, Ask: true})
	if err == nil {
		err = p.same(now)
	}
	if err == nil {
		err = t.mayType(p.aim, now, p.step.Secret)
	}
	if err != nil {
		return err
	}
	typ := ""
	if now.Field == "password" {
		typ = "password"
	}
	return t.insert(ctx, p.aim, typ, text)
}

// dateForm describes how the value of a field for dates or times is written, and which keys
// type it: Chrome shows such a field in parts, in the order of its locale, and each part
// takes its own digits.
type dateForm struct {
	value string // layout of the value of the field, for package time
	keys  string // layout of what is typed, in the order of en-US
}

// dateForms contains the forms of the fields for dates and times, by the role of the field,
// the usual form first.
var dateForms = map[string][]dateForm{
	"date":     {{"2006-01-02", "01022006"}},
	"time":     {{"15:04", "0304PM"}},
	"month":    {{"2006-01", "Jan\t2006"}},
	"datetime": {{"2006-01-02T15:04", "01022006\t0304PM"}},
}

// dateParts is the largest number of parts of a field of dateForms.
const dateParts = 6

// fillDate types a date or a time into a field, and checks that the field then has that value.
func (p *plan) fillDate(ctx context.Context, text string, forms []dateForm) error {
	t := hand{p.t}
	keys, example := "", forms[0].value
	for _, f := range forms {
		if at, err := time.Parse(f.value, text); err == nil {
			keys = at.Format(f.keys)
		}
	}
	if keys == "" && text != "" {
		return &Refusal{Reason: ReasonArgument, Message: fmt.Sprintf("%s does not accept %s", t.nameOf(p.aim), quoted(text, 40)), Next: "write it in the form " + example}
	}
	s := p.aim.frame.session
	// These keys empty all parts, and leave the first part selected.
	empty := slices.Concat(
		slices.Repeat(keysOf("Backspace", "ArrowLeft"), dateParts),
		slices.Repeat(keysOf("Backspace", "ArrowRight"), dateParts),
		slices.Repeat(keysOf("ArrowLeft"), dateParts),
	)
	became, err := guard(t).during(ctx, p.aim, p.again(inField), func(now touched) error {
		if err := p.same(now); err != nil {
			return err
		}
		if err := keyboard(t).press(ctx, s, empty...); err != nil {
			return err
		}
		for i, part := range strings.Split(keys, "\t") {
			if i > 0 { // Chrome stays in a part that may get more digits, such as the year
				if err := keyboard(t).press(ctx, s, keysOf("ArrowRight")...); err != nil {
					return err
				}
			}
			if p.aim.frame.leftIn(t.tab) {
				return errLeft
			}
			if err := keyboard(t).typeKeys(ctx, p.aim, part); err != nil {
				return err
			}
		}
		return nil
	})
	if over, err := guard(t).endOf(became, err, became.lostFocus(t.nameOf(p.aim)), "look again"); over {
		return err
	}
	if became.Hits == 0 {
		return &Refusal{Reason: ReasonNotReady, Message: "the keys did not reach " + t.nameOf(p.aim), Next: "look again"}
	}
	var value string
	err = t.run(ctx, p.aim.frame, fmt.Sprintf("belljar.element(%d).value", p.aim.local), &value)
	if err != nil && !inputOver(err) {
		return t.fault(err, true)
	}
	if err == nil && value != text {
		return &Refusal{Reason: ReasonFailed, Message: fmt.Sprintf("%s has the value %s, not the one in the step", t.nameOf(p.aim), quoted(t.e.masks.hide(value), 40)), Next: "look", Ran: true}
	}
	return nil
}
