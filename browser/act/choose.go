package act

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// choose selects an option by its text, with the keys of its list. Of a list of several,
// text has one a line.
func (t hand) choose(ctx context.Context, p *plan, text string) error {
	if strings.Contains(text, "\n") {
		return t.chooseSeveral(ctx, p, strings.Split(text, "\n"))
	}
	list := func() (r struct {
		At       int      `json:"at"`
		Want     int      `json:"want"`
		Steps    int      `json:"steps"`
		Some     []string `json:"some"`
		Off      bool     `json:"off"`
		Multiple bool     `json:"multiple"`
	}, err error,
	) {
		err = t.run(ctx, p.aim.frame, fmt.Sprintf(`((e, want) => {
  const list = Array.from(e.options), text = (o) => belljar.tidy(o.text), usable = (o) => !o.disabled && !(belljar.is(o.parentElement, "optgroup") && o.parentElement.disabled) && getComputedStyle(o).display !== "none";
  let at = list.findIndex((o) => text(o) === want);
  if (at < 0) at = list.findIndex((o) => text(o).toLowerCase() === want.toLowerCase());
  const open = list.filter(usable);
  return { at: e.selectedIndex, want: at, steps: open.indexOf(list[at]), off: at >= 0 && !usable(list[at]), some: list.slice(0, 8).map((o) => text(o).slice(0, 40)), multiple: e.multiple || e.size > 1 };
})(belljar.element(%d), %s)`, p.aim.local, argument(plain(text))), &r)
		return r, err
	}
	l, err := list()
	if err != nil {
		return t.fault(err, false)
	}
	if l.Want < 0 || l.Off {
		what := "has no option"
		if l.Off {
			what = "has that option disabled:"
		}
		for i, s := range l.Some {
			l.Some[i] = quoted(t.e.masks.hide(s), 40)
		}
		return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("%s %s %s", t.nameOf(p.aim), what, quoted(text, MaxName)), Next: "write one of its options, such as " + strings.Join(l.Some, ", ")}
	}
	if l.At == l.Want && !l.Multiple {
		return nil
	}
	if _, err := t.reachable(ctx, p.aim); err != nil {
		return err
	}
	if err := t.focus(ctx, p.aim, false); err != nil {
		return err
	}
	s := p.aim.frame.session
	hits, misses, err := t.guarded(ctx, p.aim, true, func() error {
		open, _ := parseKey("Alt+ArrowDown")
		if !l.Multiple {
			// Without its list open, each step would be a change that the page hears of.
			if err := t.press(ctx, s, open.seq); err != nil {
				return err
			}
		}
		if err := t.press(ctx, s, kb.Encode([]rune(kb.Home)[0])); err != nil {
			return err
		}
		for range min(l.Steps, 2000) {
			if err := t.press(ctx, s, kb.Encode([]rune(kb.ArrowDown)[0])); err != nil {
				return err
			}
		}
		if l.Multiple {
			return nil
		}
		return t.press(ctx, s, kb.Encode('\r'))
	})
	if errors.Is(err, errBlocked) || errors.Is(err, errLeft) {
		return nil
	}
	if err != nil {
		return t.fault(err, true)
	}
	if misses > 0 {
		return &Refusal{Reason: ReasonNotReady, Message: t.nameOf(p.aim) + " lost the focus while it was used", Next: "look", Ran: hits > 0}
	}
	t.settle(ctx, time.Second)
	if l, err = list(); err == nil && l.At != l.Want {
		return &Refusal{Reason: ReasonFailed, Message: t.nameOf(p.aim) + " has another option selected than was wanted", Next: "look", Ran: true}
	}
	return nil
}

// chooseSeveral selects these options of a list that takes several, and no others.
func (t hand) chooseSeveral(ctx context.Context, p *plan, texts []string) error {
	if !p.raw.Multiple {
		return &Refusal{Reason: ReasonArgument, Message: t.nameOf(p.aim) + " takes one option", Next: "write one"}
	}
	for i, text := range texts {
		texts[i] = plain(text)
	}
	var r struct {
		Places []int `json:"places"` // of the options among those that keys reach, in their order
		None   int   `json:"none"`   // index of a text that no option has, or -1
	}
	err := t.run(ctx, p.aim.frame, fmt.Sprintf(`((e, texts) => {
  const open = Array.from(e.options).filter((o) => !o.disabled && !(belljar.is(o.parentElement, "optgroup") && o.parentElement.disabled) && getComputedStyle(o).display !== "none");
  const at = texts.map((t) => open.findIndex((o) => belljar.tidy(o.text) === t));
  return { places: Array.from(new Set(at)).sort((a, b) => a - b), none: at.indexOf(-1) };
})(belljar.element(%d), %s)`, p.aim.local, argument(texts)), &r)
	switch {
	case err != nil:
		return t.fault(err, false)
	case r.None >= 0:
		return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("%s has no option %s", t.nameOf(p.aim), quoted(texts[r.None], MaxName)), Next: "write its options, one a line"}
	}
	if _, err := t.reachable(ctx, p.aim); err != nil {
		return err
	}
	if err := t.focus(ctx, p.aim, false); err != nil {
		return err
	}
	s := p.aim.frame.session
	press := func(name string, times int) error {
		k, _ := parseKey(name)
		for range min(times, 2000) {
			if err := t.press(ctx, s, k.seq); err != nil {
				return err
			}
		}
		return nil
	}
	hits, misses, err := t.guarded(ctx, p.aim, true, func() error {
		// The first is selected alone, and the others are added.
		if err := errors.Join(press("Home", 1), press("ArrowDown", r.Places[0])); err != nil {
			return err
		}
		for i, at := range r.Places[1:] {
			if err := errors.Join(press("Control+ArrowDown", at-r.Places[i]), press("Control+Space", 1)); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errBlocked), errors.Is(err, errLeft):
		return nil
	case err != nil:
		return t.fault(err, true)
	case misses > 0:
		return &Refusal{Reason: ReasonNotReady, Message: t.nameOf(p.aim) + " lost the focus while it was used", Next: "look", Ran: hits > 0}
	}
	t.settle(ctx, time.Second)
	var now []string
	err = t.run(ctx, p.aim.frame, fmt.Sprintf("Array.from(belljar.element(%d).selectedOptions, (o) => belljar.tidy(o.text))", p.aim.local), &now)
	if err == nil && len(now) != len(r.Places) {
		return &Refusal{Reason: ReasonFailed, Message: fmt.Sprintf("%s has %d options selected, and %d were wanted", t.nameOf(p.aim), len(now), len(r.Places)), Next: "look", Ran: true}
	}
	return nil
}
