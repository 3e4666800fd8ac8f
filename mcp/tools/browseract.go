package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// factsOf returns the facts that the browser read, in the form for a policy.
func factsOf(f act.Facts) policies.Act {
	return policies.Act{
		Kind: policies.ActKind(f.Kind), On: f.On, To: f.To, Method: f.Method, Field: f.Field, Secret: f.Secret, Path: f.Path,
	}
}

// facts finds out what a step does: from the browser, or from the step's arguments if no
// browser is open.
func (b *browsers) facts(ctx context.Context, session *mcp.Session, tab string, s browserStep) (f policies.Facts, err error) {
	step, err := s.step()
	if err != nil {
		return f, err
	}
	f.Args = s.alone(tab)
	seat := b.current(session)
	if seat == nil {
		if step.Do != act.DoOpen {
			return f, errNoBrowser
		}
		f.Acts = []policies.Act{{Kind: policies.ActNavigate, To: step.URL, Method: "GET"}}
		return f, nil
	}
	c, leave, err := seat.take(ctx)
	if err != nil {
		return f, err
	}
	defer leave()
	prepared, err := c.Prepare(ctx, tab, step)
	if err != nil {
		return f, b.said(seat, c, err)
	}
	seat.prepare(tab, s, prepared)
	f.Acts = []policies.Act{factsOf(prepared.Facts)}
	if words := prepared.Facts.Words(); words != "" {
		f.Scene = &policies.Scene{Control: words}
	}
	return f, nil
}

// run is one call of Browser while it runs.
type run struct {
	b     *browsers
	seat  *browserSeat
	tab   string   // tab in which the next step acts
	lines []string // what the steps did
	ran   int      // number of steps that ran
	stop  string   // why no further step may run
	reel  Reel     // nil if the call is not recorded
}

// reelTime is how long making a picture for the record may take.
const reelTime = 2 * time.Second

// record records a step that was begun, with what the browser then shows. It does so even
// if the call has been cancelled.
func (r *run) record(ctx context.Context, c Chrome, was act.Facts, did string) {
	if r.reel == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reelTime)
	defer cancel()
	shows, why := c.Show(ctx)
	if why != nil {
		why = errors.New(c.Mask(why.Error()))
	}
	what := factsOf(was).String()
	if was.Shown != "" {
		what += " at " + was.Shown
	}
	r.reel.Step(c.Mask(what), c.Mask(did), shows, why)
}

// act runs the steps of a call, one after the other. The first was decided about with the
// call; each of the others is decided about when its turn comes.
func (b *browsers) act(ctx context.Context, call mcp.Call, in browserInput) (*mcp.Result, error) {
	if r := planned(call, "Nothing was done in the browser."); r != nil {
		return r, nil
	}
	seat, err := b.seat(ctx, call)
	if err != nil {
		return nil, err
	}
	r := &run{b: b, seat: seat, tab: in.Tab}
	if record := b.backends.Browsers.Reel; record != nil {
		if r.reel = record(call); r.reel != nil {
			defer r.reel.Close()
		}
	}
	var refusal *policies.Refusal
	for i, s := range in.Steps {
		unseen := i == len(in.Steps)-1 && in.Then == "nothing"
		one := func(c mcp.Call) error { return r.step(ctx, c, s, unseen) }
		if i == 0 {
			err = one(call)
		} else {
			var f policies.Facts
			if f, err = b.facts(ctx, call.Session, r.tab, s); err == nil {
				refusal, err = call.Further(ctx, f, one)
			}
		}
		if err != nil || refusal != nil || r.stop != "" {
			break
		}
	}
	return r.result(ctx, in, refusal, err)
}

// step runs one step that was decided about, if its facts are still the same.
func (r *run) step(ctx context.Context, call mcp.Call, s browserStep, unseen bool) error {
	step, err := s.step()
	if err != nil {
		return err
	}
	step.Unseen = unseen
	c, leave, err := r.seat.take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	done := call
	done.Grant = call.Grant.Acted()
	r.seat.decided(call)
	defer r.seat.decided(done)
	// Do reads the facts again, so the step can use the Prepared that the policy decided
	// about.
	p := r.seat.prepared(r.tab, s)
	if p == nil || changed(call, p.Facts) != "" {
		if p, err = c.Prepare(ctx, r.tab, step); err != nil {
			return r.b.said(r.seat, c, err)
		}
		if why := changed(call, p.Facts); why != "" {
			return errors.New(c.Mask(why))
		}
	}
	switch acting := call.Grant.Acting(); {
	case step.Do == act.DoOpen && !acting.Opens(step.URL, p.Seen):
		return fmt.Errorf("%s was not shown by a page, and has a query or a fragment; nothing was done; open a page that links to it, or open the address without query and fragment", policies.Clip(fmt.Sprintf("%q", step.URL), 200))
	case step.Do == act.DoEval && acting.Eval == policies.EvalOff:
		return errors.New("this profile no longer allows eval; nothing was done; look at the page")
	case step.Secret != "" && !slices.ContainsFunc(acting.Secrets, func(f policies.FieldSecret) bool {
		return f.Secret == step.Secret && slices.Contains(r.seat.secrets, f)
	}):
		return fmt.Errorf("secret %s: the policy does not allow it here, or the policy has changed since this browser was opened; nothing was done; use another secret, or end the session and begin a new one", policies.Clip(fmt.Sprintf("%q", step.Secret), 80))
	case step.Do == act.DoUpload:
		if step.File, err = r.b.upload(ctx, call, step.Path, acting.Limits.Uploads); err != nil {
			return err
		}
		defer step.File.Content.Close()
	}
	o, err := c.Do(ctx, p, step)
	if act.ReasonOf(err) == act.ReasonChanged { // report what the step would do now
		if now, failed := c.Prepare(ctx, r.tab, step); failed == nil {
			if why := changed(call, now.Facts); why != "" {
				return errors.New(c.Mask(why))
			}
		}
	}
	if err != nil {
		r.record(ctx, c, p.Facts, err.Error())
		return r.b.said(r.seat, c, err)
	}
	r.note(c, o)
	r.record(ctx, c, p.Facts, o.Line)
	if o.File == nil {
		r.ran++
		return nil
	}
	defer o.File.Content.Close()
	if err := r.b.save(ctx, call, step.Path, step.Clear, o.File); err != nil {
		return r.b.said(r.seat, c, err)
	}
	r.ran++
	r.lines = append(r.lines, fmt.Sprintf("saved %s (%d bytes)", policies.Clip(step.Path, 300), o.File.Size))
	return nil
}

// changed returns why a step is no longer the one that was decided about; empty if it still
// is.
func changed(call mcp.Call, now act.Facts) string {
	if len(call.Acts) != 1 {
		return "the policy has not decided about this step; nothing was done; send the step again"
	}
	control := ""
	if call.Scene != nil {
		control = call.Scene.Control
	}
	was, is := call.Acts[0], factsOf(now)
	if was.Kind == policies.ActNavigate && was.On == "" {
		is.On = "" // there was no page when this was decided
	}
	if was == is && (control == now.Words() || was.Kind == policies.ActNavigate) {
		return ""
	}
	return fmt.Sprintf("the page has changed since the policy decided about this step: the step was %s, and now is %s; nothing was done; look again", was, is)
}

// note adds what a step did to the lines of the result.
func (r *run) note(c Chrome, o *act.Outcome) {
	r.tab, r.stop = o.Tab, o.Stop
	line := o.Line
	if o.Value != "" {
		line += ": " + o.Value
	}
	r.lines = append(r.lines, c.Mask(line))
	for _, tab := range o.Opened {
		r.lines = append(r.lines, "opened tab "+tab)
	}
	for _, d := range o.Downloads {
		r.lines = append(r.lines, "download "+c.Mask(d))
	}
	if o.Dialog != nil {
		r.lines = append(r.lines, fmt.Sprintf("a dialog is open (%s): %q; answer it with a dialog step", policies.Clip(o.Dialog.Kind, 20), c.Mask(o.Dialog.Text)))
	}
}

// result returns what ran, why the remaining steps did not, and what the page shows.
func (r *run) result(ctx context.Context, in browserInput, refusal *policies.Refusal, failed error) (*mcp.Result, error) {
	all := len(in.Steps)
	if r.ran == 0 && refusal == nil && failed != nil && len(r.lines) == 0 {
		return nil, failed
	}
	text := strings.Join(r.lines, "\n")
	if r.ran < all {
		text += fmt.Sprintf("\n%d of %d steps ran", r.ran, all)
		switch {
		case refusal != nil:
			text += ". Step " + fmt.Sprint(r.ran+1) + ":\n" + refusal.Text()
		case failed != nil:
			text += fmt.Sprintf(". Step %d: %v", r.ran+1, failed)
		case r.stop != "":
			text += ": " + r.stop
		}
	}
	out := &mcp.Result{Content: []mcp.Content{{Text: strings.TrimPrefix(text, "\n")}}, IsError: refusal != nil || failed != nil}
	if in.Then == "nothing" || ctx.Err() != nil {
		return out, nil
	}
	c, leave, err := r.seat.take(ctx)
	if err != nil {
		return out, nil // the steps ran, so this is not an error
	}
	defer leave()
	at := act.AtChanges
	switch in.Then {
	case "page":
		at = act.AtPage
	case "picture":
		at = act.AtPicture
	}
	if shown, err := shownBy(ctx, c, act.LookRequest{At: at, Tab: r.tab}); err == nil {
		out.Content = append(out.Content, shown.Content...)
	} else {
		out.Content = append(out.Content, mcp.Content{Text: "the page cannot be shown: " + r.b.said(r.seat, c, err).Error()})
	}
	return out, nil
}
