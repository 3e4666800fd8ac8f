package act

import (
	"context"
	"errors"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// eval evaluates one expression that changes nothing, in a world of its own: Chrome
// ends it at the first effect.
func (t eye) eval(ctx context.Context, expression string) (string, error) {
	refuse := func(r Reason, what, next string) (string, error) {
		return "", &Refusal{Reason: r, Message: what, Next: next}
	}
	switch {
	case !t.e.opts.Eval:
		return refuse(ReasonPolicy, "this profile evaluates nothing", "look at the page")
	case t.e.masks.any():
		return refuse(ReasonSecret, "a secret was typed in this session, so nothing is evaluated in it", "look at the page")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*EvalTime)
	defer cancel()
	f, ok := t.frameOf(t.target)
	if !ok {
		return "", t.fault(errLeft, false)
	}
	w, err := t.readingWorld(ctx, f)
	if err != nil {
		return "", t.fault(err, false)
	}
	// What it says is written down here and not there, so that it can be no function of
	// the page.
	script := "(" + strings.TrimRight(strings.TrimSpace(expression), ";") + "\n)"
	r, err := begin(t.e.g, f.session, runtime.Evaluate, runtime.EvaluateParams{
		Expression: script, ContextID: w, ReturnByValue: new(true), ThrowOnSideEffect: new(true), Timeout: runtime.TimeDelta(EvalTime.Milliseconds()), Silent: new(true),
	}).waitOr(ctx, t.stop())
	if err != nil {
		if p := t.cause(err); strings.Contains(p.Error(), "terminated") {
			return refuse(ReasonTimeout, "the expression took more than a second", "ask for less")
		}
		return "", t.fault(t.cause(err), false)
	}
	if d := r.ExceptionDetails; d != nil {
		text := d.Text
		if d.Exception != nil && d.Exception.Description != "" {
			text = d.Exception.Description
		}
		text = cut(escaped(text), 300)
		if strings.Contains(text, "side-effect") || strings.Contains(text, "side effect") {
			return refuse(ReasonPolicy, "the expression would change something, so it was stopped before", "write one that only reads, or use a step for the change")
		}
		return refuse(ReasonFailed, "the expression failed: "+text, "correct it")
	}
	value := "undefined"
	if r.Result != nil && len(r.Result.Value) > 0 {
		value = string(r.Result.Value)
	}
	if len(value) > MaxEval {
		return refuse(ReasonLimit, "the value has more than "+bytesOf(MaxEval), "ask for less")
	}
	return strings.ToValidUTF8(value, "?"), nil
}

// readingWorld is a world for expressions of the agent, apart from that of our
// scripts, in which neither cookies nor passwords can be read.
func (t eye) readingWorld(ctx context.Context, f frame) (runtime.ExecutionContextID, error) {
	made, err := call(ctx, t.e.g, f.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(f.id), WorldName: "reading"})
	if err != nil {
		return 0, t.cause(err)
	}
	// A frame of the same origin has the same cookies, and prototypes of its own.
	const shut = `(() => {
  const shut = (w, depth) => {
    const no = (proto, name, get) => w.Object.defineProperty(proto, name, { get, configurable: false });
    if (w.Object.getOwnPropertyDescriptor(w.Document.prototype, "cookie").configurable) {
      no(w.Document.prototype, "cookie", () => "");
      const value = w.Object.getOwnPropertyDescriptor(w.HTMLInputElement.prototype, "value").get;
      no(w.HTMLInputElement.prototype, "value", function () { return this.type === "password" ? "" : value.call(this) });
      for (const name of ["cookieStore", "indexedDB", "caches"]) try { w.Object.defineProperty(w, name, { value: undefined, configurable: false }) } catch {}
    }
    for (let i = 0; i < w.length && depth < 8; i++) try { shut(w[i], depth + 1) } catch {}
  };
  shut(globalThis, 0);
  try { if (opener) shut(opener.top, 0) } catch {}
  return 0;
})()`
	r, err := call(ctx, t.e.g, f.session, runtime.Evaluate, runtime.EvaluateParams{Expression: shut, ContextID: made.ExecutionContextID, ReturnByValue: new(true), Silent: new(true)})
	if err != nil {
		return 0, t.cause(err)
	}
	if r.ExceptionDetails != nil {
		return 0, errors.New("prepare the world of expressions: " + cut(plain(r.ExceptionDetails.Text), 200))
	}
	return made.ExecutionContextID, nil
}
