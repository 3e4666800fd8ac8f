package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// evaluate runs a script in our world of the page's document and reads its value into into.
// If the value is a promise, evaluate waits for it.
func (t *tab) evaluate(ctx context.Context, script string, into any) error {
	ours, err := t.enter().wait(ctx)
	if err != nil {
		return t.cause(err)
	}
	return t.result(ctx, t.run(ours.ExecutionContextID, script), into)
}

// enter requests our world of the present document.
func (t *tab) enter() pending[page.CreateIsolatedWorldResult] {
	return begin(t.ch.conn, t.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: t.frame, WorldName: world})
}

// run begins to run a script in one of our worlds.
func (t *tab) run(where runtime.ExecutionContextID, script string) pending[runtime.EvaluateResult] {
	return begin(t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{
		Expression: script, ContextID: where, ReturnByValue: new(true), AwaitPromise: new(true), Silent: new(true),
	})
}

// result waits for a script and decodes its value.
func (t *tab) result(ctx context.Context, script pending[runtime.EvaluateResult], into any) error {
	answer, err := script.wait(ctx)
	if err != nil {
		return t.cause(err)
	}
	if answer.ExceptionDetails != nil {
		return fmt.Errorf("run script: %s", describe(answer.ExceptionDetails))
	}
	if answer.Result == nil || into == nil {
		return nil
	}
	if err := jsonv2.Unmarshal(answer.Result.Value, into, jsonOptions); err != nil {
		return fmt.Errorf("read the result of a script: %w", err)
	}
	return nil
}

func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		return clip(e.Exception.Description, maxNote)
	}
	return clip(e.Text, maxNote)
}

// moved reports whether a script failed because its document was replaced.
func moved(err error) bool {
	p, ok := errors.AsType[*protocolError](err)
	return ok && (p.Code == -32000 || strings.Contains(p.Message, "navigated") || strings.Contains(p.Message, "context"))
}
