package act

import (
	"context"
	"errors"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// eval evaluates one expression that changes nothing, in a world of its own: Chrome ends
// the evaluation at the first side effect.
func (t eye) eval(ctx context.Context, expression string) (string, error) {
	refuse := func(r Reason, what, next string) (string, error) {
		return "", &Refusal{Reason: r, Message: what, Next: next}
	}
	switch {
	case !t.e.opts.Eval:
		return refuse(ReasonPolicy, "this profile does not evaluate expressions", "look at the page")
	case t.e.masks.any():
		return refuse(ReasonSecret, "a secret was typed in this session, so no expression is evaluated in it", "look at the page")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*EvalTime)
	defer cancel()
	f, ok := t.frameOf(t.target)
	if !ok {
		return "", t.fault(errLeft, false)
	}
	w, err := t.readingWorldOf(ctx, f)
	if err != nil {
		return "", t.fault(err, false)
	}
	r, err := begin(t.e.g, f.session, runtime.Evaluate, evaluation(w, expression)).waitOr(ctx, t.stop())
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
		if strings.Contains(text, "side-effect") || strings.Contains(text, "side effect") {
			return refuse(ReasonPolicy, "the expression would change something, so it was stopped before it did", "write one that only reads, or use a step for the change")
		}
		return refuse(ReasonFailed, "the expression failed: "+quoted(text, 300), "correct it")
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

// evaluation returns the parameters that evaluate an expression of the agent in the world
// w.
func evaluation(w, expression string) runtime.EvaluateParams {
	// The script contains the expression itself, so no function of the page evaluates it.
	script := "(" + strings.TrimRight(strings.TrimSpace(expression), ";") + "\n)"
	return runtime.EvaluateParams{
		Expression: script, UniqueContextID: w, ReturnByValue: new(true), ThrowOnSideEffect: new(true), Timeout: runtime.TimeDelta(EvalTime.Milliseconds()), Silent: new(true),
	}
}

// readingWorld is the name of the worlds for expressions of the agent.
const readingWorld = "reading"

// readingWorldOf returns the ID of a document's world for expressions of the agent. It is
// not the world of our scripts, and neither cookies nor passwords can be read in it. The ID
// is unique in all processes: when the document is left, a world of the next page, in which
// they can be read, may have the same number.
func (t eye) readingWorldOf(ctx context.Context, f frame) (string, error) {
	_, err := call(ctx, t.e.g, f.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(f.id), WorldName: readingWorld})
	if err != nil {
		return "", t.cause(err)
	}
	now, _ := t.frameOf(f.id) // the tab was notified of the world before the answer
	if now.reading == "" || now.loader != f.loader {
		return "", errLeft
	}
	// A frame of the same origin has the same cookies, but prototypes of its own.
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
	r, err := call(ctx, t.e.g, f.session, runtime.Evaluate, runtime.EvaluateParams{Expression: shut, UniqueContextID: now.reading, ReturnByValue: new(true), Silent: new(true)})
	if err != nil {
		return "", t.cause(err)
	}
	if r.ExceptionDetails != nil {
		return "", errors.New("prepare the world of expressions: " + cut(plain(r.ExceptionDetails.Text), 200))
	}
	return now.reading, nil
}
