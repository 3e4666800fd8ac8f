package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/order"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Prompt is a text with blanks. A person chooses it at the client.
type Prompt struct {
	Name        string // unique; if several sources have it, the prompt of the first source is used
	Title       string
	Description string
	Arguments   []Argument
	// Definition is a JSON object, the prompt of an upstream in the form in which the
	// upstream lists it. It is listed in place of the other fields, with Name as its name.
	Definition json.RawMessage
}

// Argument is a blank of a prompt. All arguments are texts.
type Argument struct {
	Name        string
	Title       string
	Description string
	Required    bool
}

// Message is one turn of a prompt. Role is "user" or "assistant"; empty is
// "user".
type Message struct {
	Role    string
	Content Content
}

// PromptSource provides prompts. Its functions are called from many goroutines, with an
// open session, and must limit what they return. List is called for each use of a prompt,
// so it should be fast.
type PromptSource struct {
	List func(ctx context.Context, s *Session) ([]Prompt, error)
	// Get fills in a prompt of List. args contains all required arguments, and only
	// arguments that List names. ErrNotFound means that the prompt no longer exists.
	Get func(ctx context.Context, s *Session, name string, args map[string]string) ([]Message, error)
	// Facts, if it is not nil, makes the use of a prompt a call of a tool, which the policy
	// decides. The facts name the tool. Then GetGranted is used in place of Get. Prompts
	// that are not this server's own must have Facts.
	Facts      func(s *Session, name string, args map[string]string) policies.Facts
	GetGranted func(ctx context.Context, call Call, name string, args map[string]string) ([]Message, error)
	// Complete returns the values of an argument that begin with what was typed, the best
	// first. It may be nil.
	Complete func(ctx context.Context, s *Session, name, argument, typed string) ([]string, error)
	// CompleteGranted is used in place of Complete if Facts is set. If it is nil, no values
	// are returned.
	CompleteGranted func(ctx context.Context, call Call, want Completing) (Completion, error)
}

// prompts are the sources of a server's prompts.
type prompts struct {
	cfg  *Config
	gate *callGate

	mu      sync.Mutex
	sources []PromptSource // guarded by mu
}

// AddPrompts registers a source of prompts. It panics if List is nil, if Get is nil without
// Facts, or if GetGranted is nil with Facts and without Get: these are mistakes of this
// program.
func (s *Server) AddPrompts(p PromptSource) {
	if p.List == nil || p.Get == nil && (p.Facts == nil || p.GetGranted == nil) {
		panic("mcp: add prompts: List or Get is nil")
	}
	s.prompts.mu.Lock()
	defer s.prompts.mu.Unlock()
	s.prompts.sources = append(s.prompts.sources, p)
}

// AddPrompt registers one prompt that always exists.
func (s *Server) AddPrompt(p Prompt, get func(ctx context.Context, s *Session, args map[string]string) ([]Message, error)) {
	s.AddPrompts(PromptSource{
		List: func(context.Context, *Session) ([]Prompt, error) { return []Prompt{p}, nil },
		Get: func(ctx context.Context, s *Session, _ string, args map[string]string) ([]Message, error) {
			return get(ctx, s, args)
		},
	})
}

// source is a prompt with its source.
type source struct {
	Prompt
	from PromptSource
}

// all returns the prompts that a session has, sorted by name.
func (ps *prompts) all(ctx context.Context, session *Session) ([]source, error) {
	ps.mu.Lock()
	from := slices.Clone(ps.sources)
	ps.mu.Unlock()
	var all []source
	for _, p := range from {
		some, err := p.List(ctx, session)
		if err != nil {
			return nil, fmt.Errorf("list prompts: %w", err)
		}
		for _, each := range some {
			all = append(all, source{each, p})
		}
	}
	order.By(all, func(a, b *source) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b source) bool { return a.Name == b.Name }), nil
}

// find returns the prompt with a name, if the session has it.
func (ps *prompts) find(ctx context.Context, session *Session, name string) (source, bool, error) {
	all, err := ps.all(ctx, session)
	i := slices.IndexFunc(all, func(p source) bool { return p.Name == name })
	if err != nil || i < 0 {
		return source{}, false, err
	}
	return all[i], true, nil
}

// promptsResult is a list of prompts. Prompts of upstreams have members that the go-sdk
// does not know.
type promptsResult struct {
	*sdk.ListPromptsResult
	Prompts []any `json:"prompts"` // hides the field of the sdk
}

// list answers prompts/list.
func (ps *prompts) list(ctx context.Context, session *Session, req *sdk.ListPromptsRequest) (*promptsResult, error) {
	all, err := ps.all(ctx, session)
	if err != nil {
		return nil, err
	}
	out := &promptsResult{ListPromptsResult: &sdk.ListPromptsResult{}, Prompts: []any{}}
	page, next, bad := paged(all, cursorOf(req.Params), func(p source) string { return p.Name })
	if bad != nil {
		return nil, bad
	}
	for _, p := range page {
		if p.Definition != nil {
			if d := readEntry(p.Definition, "name", p.Name); d != nil {
				out.Prompts = append(out.Prompts, d)
			}
			continue
		}
		listed := &sdk.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
		for _, a := range p.Arguments {
			listed.Arguments = append(listed.Arguments, &sdk.PromptArgument{Name: a.Name, Title: a.Title, Description: a.Description, Required: a.Required})
		}
		out.Prompts = append(out.Prompts, listed)
	}
	out.NextCursor, out.TTLMs, out.CacheScope = next, ps.gate.tools.ttl(session.tenant), private
	return out, nil
}

// promptResult is the sdk's GetPromptResult with the member resultType, which the sdk sets
// only for its own prompts.
type promptResult struct {
	sdk.ResultBase
	ResultType  string               `json:"resultType,omitempty"`
	Description string               `json:"description,omitempty"`
	Messages    []*sdk.PromptMessage `json:"messages"`
}

// get answers prompts/get. It returns nil without an error if no source has the prompt.
func (ps *prompts) get(ctx context.Context, session *Session, req *sdk.GetPromptRequest) (*promptResult, error) {
	name, args := req.Params.Name, req.Params.Arguments
	p, known, err := ps.find(ctx, session, name)
	if err != nil || !known {
		return nil, err
	}
	if bad := p.check(args); bad != nil {
		return nil, bad
	}
	messages, err := ps.messages(ctx, session, p, args)
	var bad *wire.Error
	switch {
	case errors.As(err, &bad):
		return nil, bad
	case errors.Is(err, ErrNotFound):
		return nil, nil //nolint:nilnil // nil means that there is no such prompt: it was removed after the list was made
	case err != nil:
		return nil, wire.Errorf(wire.InternalError, "prompt %.80s: %s", name, faultText(err))
	}
	out := &promptResult{Description: p.Description, Messages: []*sdk.PromptMessage{}}
	if eraOf(req) == wire.Modern {
		out.ResultType = resultComplete
	}
	size := 0
	for _, m := range messages {
		role := sdk.Role("user")
		if m.Role != "" {
			role = sdk.Role(m.Role)
		}
		size += m.Content.size()
		out.Messages = append(out.Messages, &sdk.PromptMessage{Role: role, Content: m.Content.sdk()})
	}
	if size > ps.cfg.Limits.Response {
		return nil, wire.TooLarge(size, ps.cfg.Limits.Response)
	}
	return out, nil
}

// messages fills in a prompt, through the gate if its source has facts.
func (ps *prompts) messages(ctx context.Context, session *Session, p source, args map[string]string) (all []Message, err error) {
	if p.from.Facts == nil {
		return p.from.Get(ctx, session, p.Name, args)
	}
	c := Call{ID: NewCallID(), Session: session, Progress: withoutProgress}
	ctx, cancel := context.WithCancelCause(ctx)
	if err := session.begin(c.ID, cancel); err != nil {
		return nil, err
	}
	defer session.finish(c.ID)
	f := p.from.Facts(session, p.Name, args)
	given := make(map[string]any, len(args))
	for name, value := range args {
		given[name] = value
	}
	f.Args = map[string]any{"name": p.Name, "arguments": given}
	d, err := ps.gate.runGranted(ctx, c, f, func(c Call) error {
		all, err = p.from.GetGranted(ctx, c, p.Name, args)
		return err
	})
	if err != nil || len(d.Redact) == 0 {
		return all, ps.gate.redactFault(err, d)
	}
	clean := Result{Content: make([]Content, 0, len(all))}
	for _, m := range all {
		clean.Content = append(clean.Content, m.Content)
	}
	r := ps.gate.redactResult(&clean, d)
	if len(r.Content) != len(all) {
		return nil, wire.Errorf(wire.InternalError, "the prompt cannot be sent: the policy requires a redaction, and the prompt cannot be read to redact it")
	}
	for i := range all {
		all[i].Content = r.Content[i]
	}
	return all, nil
}

// check returns what is wrong with the arguments that a client gave, or nil.
func (p *Prompt) check(args map[string]string) *wire.Error {
	known := make([]string, 0, len(p.Arguments))
	for _, a := range p.Arguments {
		known = append(known, a.Name)
		if _, given := args[a.Name]; a.Required && !given {
			return wire.Errorf(wire.InvalidParams, "prompt %s: the argument %q is missing", p.Name, a.Name)
		}
	}
	for _, name := range sortedKeys(args) {
		if !slices.Contains(known, name) {
			return wire.Errorf(wire.InvalidParams, "prompt %s: unknown argument %.80q; its arguments are: %s", p.Name, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// unknown returns the error for a name that no prompt has.
func (ps *prompts) unknown(ctx context.Context, session *Session, name string) *wire.Error {
	all, err := ps.all(ctx, session)
	if err != nil {
		return wire.AsError(err)
	}
	known := make([]string, 0, len(all))
	for _, p := range all {
		known = append(known, p.Name)
	}
	if near := nearest(name, known); near != "" {
		return wire.Errorf(wire.InvalidParams, "unknown prompt %.80q; did you mean %q?", name, near)
	}
	return wire.Errorf(wire.InvalidParams, "unknown prompt %.80q; prompts/list lists all %d", name, len(known))
}
