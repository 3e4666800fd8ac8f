package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/callback"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// callbackURI is the URI of the resource with the callbacks that have fired.
const callbackURI = "callback://pending"

// callbackInput is the arguments of SetCallback.
type callbackInput struct {
	Action       string `json:"action,omitempty" jsonschema:"set (default), list, cancel or wait"`
	Message      string `json:"message,omitempty" jsonschema:"text that you will get, at most 2048 characters"`
	DelaySeconds *int64 `json:"delay_seconds,omitempty" jsonschema:"seconds until it fires, each time: 1 to 3600"`
	RepeatCount  *int64 `json:"repeat_count,omitempty" jsonschema:"times it fires (default 20); -1 for no end"`
	CallbackID   *int64 `json:"callback_id,omitempty" jsonschema:"slot 0 to 7 to cancel (default all) or set (default a free one)"`
	WaitMS       *int64 `json:"wait_ms,omitempty" jsonschema:"wait: milliseconds (default 30000, at most 600000)"`
}

// Facts returns no facts: the policy gets the arguments anyway. A callback reports to its
// own session only.
func (callbackInput) Facts() policies.Facts { return policies.Facts{} }

// callbackOutput is the structured result of SetCallback.
type callbackOutput struct {
	Action    string           `json:"action"`
	Set       *armedOutput     `json:"set,omitempty"`
	Active    []armedOutput    `json:"active,omitempty"`
	Cancelled []armedOutput    `json:"cancelled,omitempty"`
	Messages  []deliveryOutput `json:"messages,omitempty" jsonschema:"for wait: the callbacks that fired"`
}

// armedOutput is an armed callback in a structured result.
type armedOutput struct {
	ID           int    `json:"callback_id"`
	Message      string `json:"message"`
	DelaySeconds int64  `json:"delay_seconds"`
	Left         int    `json:"left" jsonschema:"times it will fire; -1 for no end"`
	DueMS        int64  `json:"due_ms" jsonschema:"milliseconds until it fires"`
}

func armedOut(c callback.Callback, now time.Time) armedOutput {
	return armedOutput{c.Slot, c.Message, int64(c.Delay / time.Second), c.Left, max(0, c.Due.Sub(now).Milliseconds())}
}

func armedOuts(all []callback.Callback, now time.Time) []armedOutput {
	out := make([]armedOutput, 0, len(all))
	for _, c := range all {
		out = append(out, armedOut(c, now))
	}
	return out
}

// deliveryOutput is a callback that has fired, in a structured result.
type deliveryOutput struct {
	ID      int       `json:"callback_id"`
	Message string    `json:"message"`
	Fired   time.Time `json:"fired"`
	Times   int       `json:"times" jsonschema:"times it fired since its last delivery"`
	Left    int       `json:"left"`
}

func deliveryOuts(all []callback.Delivery) []deliveryOutput {
	out := make([]deliveryOutput, 0, len(all))
	for _, d := range all {
		out = append(out, deliveryOutput{d.Slot, d.Message, d.Fired.UTC(), d.Times, d.Left})
	}
	return out
}

// callbacks implements the tool SetCallback.
type callbacks struct {
	server   *mcp.Server
	backends Backends
}

// addCallbacks registers SetCallback and its resource.
func addCallbacks(s *mcp.Server, c *callbacks) {
	mcp.AddTool(s, mcp.Tool{
		Name:        "SetCallback",
		Brief:       "delivers [a message to the agent later](docs/callbacks.md)",
		Title:       "Get a message later",
		Description: "Schedules a message to you that fires every delay_seconds. Once it has fired, the result of your next call ends with it; action wait waits for it. action list shows what is set, action cancel ends one or all. There are 8 slots, which survive a restart.",
		Output:      callbackOutput{},
	}, c.call)
	if c.backends.Callbacks != nil {
		s.AddResource(mcp.Resource{
			Template: callbackURI, Name: "callbacks", Title: "Callbacks", MIME: "application/json",
			Description: "The callbacks that have fired and wait for delivery, those that were delivered last, and those that are set.",
			Read:        c.read,
			List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
				return []mcp.Entry{{URI: callbackURI, Name: "callbacks", Title: "Callbacks", MIME: "application/json"}}, nil
			},
		})
	}
}

// call runs one call of SetCallback.
func (c *callbacks) call(ctx context.Context, call mcp.Call, in callbackInput) (*mcp.Result, error) {
	if c.backends.Callbacks == nil {
		return mcp.Failed("Error: SetCallback is not set up on this server. Nothing was scheduled."), nil
	}
	var res *mcp.Result
	var err error
	switch strings.ToLower(in.Action) {
	case "", "set":
		res, err = c.set(ctx, call, in)
	case "list":
		res, err = c.list(ctx, call)
	case "cancel":
		res, err = c.cancel(ctx, call, in)
	case "wait":
		res, err = c.wait(ctx, call, in)
	default:
		return mcp.Failed("Error: action: got %q, want set, list, cancel or wait. Nothing was changed.", policies.Clip(in.Action, 40)), nil
	}
	if err != nil && ctx.Err() == nil {
		return mcp.Failed("Error: %s. Nothing was changed.", strings.TrimSuffix(err.Error(), ".")), nil
	}
	return res, err
}

// set arms a callback.
func (c *callbacks) set(ctx context.Context, call mcp.Call, in callbackInput) (*mcp.Result, error) {
	r := callback.Request{Message: in.Message}
	if in.DelaySeconds == nil {
		return nil, errors.New("delay_seconds: it is missing; give the number of seconds until the callback fires, 1 to 3600")
	}
	// The value is bounded so that a Duration can contain it; a value beyond the bound is
	// refused below as well.
	r.Delay = time.Duration(max(-1, min(*in.DelaySeconds, 1<<31))) * time.Second
	if in.RepeatCount != nil {
		if *in.RepeatCount == 0 {
			return nil, fmt.Errorf("repeat_count: got 0, want 1 to %d, or -1 for no end", callback.MaxRepeat)
		}
		r.Repeat = int(max(-2, min(*in.RepeatCount, 1<<31-1)))
	}
	r.Slot = slotOf(in.CallbackID)
	set, err := c.backends.Callbacks.Set(ctx, owner(call.Session), r)
	if errors.Is(err, callback.ErrFull) {
		// The first line is the text that the specification prescribes.
		return mcp.Failed("Error: %s\nNothing was changed. Cancel one first; action list shows them.", err), nil
	} else if err != nil {
		return nil, err
	}
	CallbacksChanged(c.server, call.Session.Tenant())
	out := armedOut(set, c.backends.Callbacks.Now())
	return &mcp.Result{Content: []mcp.Content{{Text: fmt.Sprintf("%s\nIts callback_id is %d.", callback.Scheduled(set), set.Slot)}}, Structured: callbackOutput{Action: "set", Set: &out}}, nil
}

// slotOf converts a slot to an int. A value out of range stays out of range; nil
// stays nil.
func slotOf(id *int64) *int {
	if id == nil {
		return nil
	}
	slot := int(max(-1, min(*id, callback.Slots)))
	return &slot
}

func (c *callbacks) list(ctx context.Context, call mcp.Call) (*mcp.Result, error) {
	all, err := c.backends.Callbacks.List(ctx, call.Session.Tenant())
	if err != nil {
		return nil, err
	}
	now := c.backends.Callbacks.Now()
	return &mcp.Result{Content: []mcp.Content{{Text: callback.Active(all, now)}}, Structured: callbackOutput{Action: "list", Active: armedOuts(all, now)}}, nil
}

func (c *callbacks) cancel(ctx context.Context, call mcp.Call, in callbackInput) (*mcp.Result, error) {
	gone, err := c.backends.Callbacks.Cancel(ctx, call.Session.Tenant(), slotOf(in.CallbackID))
	if err != nil {
		return nil, err
	}
	CallbacksChanged(c.server, call.Session.Tenant())
	return &mcp.Result{
		Content:    []mcp.Content{{Text: callback.Cancelled(gone, in.CallbackID != nil)}},
		Structured: callbackOutput{Action: "cancel", Cancelled: armedOuts(gone, c.backends.Callbacks.Now())},
	}, nil
}

// wait waits for a callback to fire.
func (c *callbacks) wait(ctx context.Context, call mcp.Call, in callbackInput) (*mcp.Result, error) {
	most, err := within("wait_ms", in.WaitMS, 30*time.Second, 0, callback.MaxWait, "")
	if err != nil {
		return nil, err
	}
	all, err := c.backends.Callbacks.Wait(ctx, owner(call.Session), c.backends.Aside.alive, most)
	if err != nil {
		return nil, err
	}
	var t text
	for _, d := range all {
		t.line("%s", callback.Told(d))
	}
	if len(all) == 0 {
		t.line("No callback fired within %s.", policies.Spoken(most))
	}
	res := &mcp.Result{
		Content:    []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}},
		Structured: callbackOutput{Action: "wait", Messages: deliveryOuts(all)},
	}
	if len(all) > 0 {
		res.Receipts = []mcp.Receipt{receiptOf(c.backends.Callbacks, all, c.backends.Log)}
	}
	return res, nil
}

// read returns the resource of callbacks. Reading it does not count as delivery.
func (c *callbacks) read(ctx context.Context, s *mcp.Session, _ string) (data []byte, mime string, err error) {
	fired, err := c.backends.Callbacks.Fired(ctx, s.Tenant())
	if err != nil {
		return nil, "", err
	}
	armed, err := c.backends.Callbacks.List(ctx, s.Tenant())
	if err != nil {
		return nil, "", err
	}
	var pending, told []callback.Delivery
	for _, d := range fired {
		if d.Told.IsZero() {
			pending = append(pending, d)
		} else {
			told = append(told, d)
		}
	}
	data, err = json.Marshal(map[string]any{
		"pending": deliveryOuts(pending), "told": deliveryOuts(told), "active": armedOuts(armed, c.backends.Callbacks.Now()),
	})
	return data, "", err
}
