package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Tool is how a tool is described to clients.
type Tool struct {
	Name        string // letters, digits, "_" and "-", at most 64: clients refuse others
	Title       string // for people
	Description string // for the agent
	Brief       string // what it does, for README.md

	ReadOnly    bool // changes nothing
	Destructive bool // may remove or overwrite; meaningless if ReadOnly
	Idempotent  bool // twice is as once
	OpenWorld   bool // reaches beyond this machine

	// Words are those that a member of the arguments takes, for the schema; "steps.do" is the
	// member do of each of steps. A handler checks them itself.
	Words map[string][]string

	// Method makes the name of the tool a method of the protocol as well, whose params are the
	// arguments and whose result is Result.Structured; see method.go.
	Method bool
	// Output is the zero value of the type that Result.Structured holds, from
	// which the output schema is made; nil for a tool without one.
	Output any
	// MaxResultChars, if not zero, asks the client to take results up to this
	// many characters whole instead of cutting them.
	MaxResultChars int
}

// Handler runs one call of a tool. The agent gets a returned error as a failed
// call, so the error's text must say what to do; a result with IsError does the
// same. ctx ends when the client cancels the call, the session ends or the server
// shuts down; a handler must then return soon. A panic fails the call and nothing
// else.
type Handler[In Gated] func(ctx context.Context, call Call, in In) (*Result, error)

// Call is what a handler knows of the call it serves, besides its input.
type Call struct {
	ID      string // "c-" and random letters; refusals and logs have it
	Session *Session
	Tool    string
	// Upstream is the server that the tool belongs to; empty for the tools of this one.
	Upstream string
	Grant    policies.Grant
	// Audit is how much the audit log keeps of the call, where a rule says so.
	Audit policies.Kept
	// Scene is what a person saw who said yes to the call, which is what may run;
	// nil where nobody was asked.
	Scene *policies.Scene
	// Acts are those that were decided about, of a call that acts in a browser.
	Acts []policies.Act
	// TraceID is the trace that the call belongs to (W3C Trace Context, 32
	// lower-case hexadecimal digits); empty for a call without a trace.
	TraceID string
	// Patience is how long the client waits for the answer, counted from the
	// start of the call; zero is as long as it takes.
	Patience time.Duration
	// Later names the call among those whose clients take a handle for the answer
	// (Tasks); empty where the client waits.
	Later string
	// Depth is how many servers such as this one the call has passed; see wire.Depth.
	Depth int
	// Detached is closed when nobody waits for the answer any more, and the call is to go on
	// all the same; nil where that does not happen.
	Detached <-chan struct{}
	// Progress tells the client how far the call is, if it asked to be told;
	// otherwise it does nothing. done must grow; total is zero where it is not
	// known. It does not wait for a slow client: reports that cannot be sent
	// are lost. It may be called from any goroutine until the handler returns.
	Progress func(done, total float64, message string)

	trace   *trace   // nil where nobody wants it
	input   *input   // of a modern client; nil in the legacy era
	allowed *allowed // nil before the call is allowed, and where nobody can be asked
	from    *upstream
	logs    *callLogs            // nil for nowhere
	redact  []policies.Redaction // what the policy wants taken out of what it answers
}

// allowed is why a call runs, for what its handler asks people. It is large, and most
// calls ask nobody.
type allowed struct {
	facts    policies.Facts
	decision policies.Decision
}

// Result is the answer of a tool.
type Result struct {
	Content    []Content
	Structured any // marshalled as structuredContent; nil for none
	IsError    bool
	// Meta is the members of the result's _meta, in JSON, that an upstream has set.
	Meta map[string]json.RawMessage
	// Upstream is the upstream that the result is from, which RawResult sets; empty for a
	// result of this server. Clients get the name too, in the _meta.
	Upstream string
	// Task is the id of the background task that the call started, for clients that
	// know tasks; empty without one.
	Task string
	// Receipts are called when it is known whether the client has the result.
	Receipts []Receipt `json:"-"`

	needs *needs // the client is to be asked first, and nothing else is there
}

// Content is one part of a result: text, an image (Data and MIME), a link to
// a resource (URI, with Text as its name and MIME), or a block that passes as it is
// (Raw). Raw wins over Data, that over URI, and URI over Text.
type Content struct {
	Text string
	Data []byte
	MIME string
	URI  string
	// Raw is a content block in JSON, on one line. Text then is the text in it, and MIME the
	// type or the kind of one without text, for those that do not read Raw.
	Raw json.RawMessage
}

// Text is a result that holds one text.
func Text(format string, args ...any) *Result {
	return &Result{Content: []Content{{Text: sprintf(format, args)}}}
}

// Failed is an error result that holds one text, for the agent.
func Failed(format string, args ...any) *Result {
	return &Result{Content: []Content{{Text: sprintf(format, args)}}, IsError: true}
}

// sprintf leaves a text without arguments as it is: it may be output.
func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// tool is a registered tool with its input type erased.
type tool struct {
	info     Tool            // for the tool of an upstream, its name alone
	upstream *upstream       // nil for a tool of this server
	aliases  []string        // of the tool of an upstream
	names    []string        // by which rules see the tool of an upstream, besides its own; never changed
	hints    map[string]bool // its annotations, for policies; never changed
	unlisted bool            // no list shows it: a search finds it
	repeats  *wire.Repeats   // the arguments of the tool of an upstream that headers repeat
	schemas  func() schemas  // nil for the tool of an upstream
	// listed returns the tool as clients list it, with its output schema if they asked for
	// structured results.
	listed func(structured bool, in wire.Era) json.RawMessage
	// decode reads arguments into a value of the input type; all is the same
	// arguments as a map.
	decode func(args json.RawMessage, depth int) (in Gated, all map[string]any, err error)
	run    func(ctx context.Context, call Call, in Gated) (*Result, error)
	// prepare finds out the facts of a call; nil if its arguments say them.
	prepare func(ctx context.Context, call Call, in Gated) (policies.Facts, error)
}

// AddTool registers a tool. The input schema is made from In, which must be a
// struct: its fields by their json tags, required unless omitempty or
// omitzero, with the jsonschema tag as description. It panics if the tool
// cannot be registered, which is a mistake of this program: two tools of one
// name, a bad name. A type without a schema panics when tools are first listed.
func AddTool[In Gated](s *Server, t Tool, h Handler[In]) { s.tools.add(newTool(t, h)) }

// newTool erases the input type of a tool. The code of it is made once for each input type, and that
// of toolOf once.
func newTool[In Gated](t Tool, h Handler[In]) *tool {
	return toolOf(t, reflect.TypeFor[In](), func(ctx context.Context, call Call, v Gated) (*Result, error) {
		typed, ok := v.(In)
		if !ok {
			return nil, fmt.Errorf("run %s with a %T", t.Name, v)
		}
		return h(ctx, call, typed)
	})
}

// toolOf returns a tool of an input type, with the function that runs it.
func toolOf(t Tool, typ reflect.Type, run func(context.Context, Call, Gated) (*Result, error)) *tool {
	in, err := shapeOf(typ)
	if err != nil {
		panic(fmt.Sprintf("mcp: add tool %s: input type: %v", t.Name, err))
	}
	if !isToolName(t.Name) {
		panic(fmt.Sprintf("mcp: add tool %q: the name must be 1 to 64 letters, digits, _ or -", t.Name))
	}
	described := sync.OnceValue(func() schemas {
		all, err := describe(t, typ)
		if err != nil {
			panic(fmt.Sprintf("mcp: describe tool %s: %v", t.Name, err))
		}
		return all
	})
	return &tool{
		info:    t,
		hints:   t.annotations(),
		schemas: described,
		listed:  ownListing(t, described),
		decode: func(args json.RawMessage, depth int) (Gated, map[string]any, error) {
			v, all, err := decodeArgs(args, in, depth)
			if err != nil {
				return nil, nil, err
			}
			gated, ok := reflect.TypeAssert[Gated](v)
			if !ok {
				return nil, nil, fmt.Errorf("decode into %v", in.typ)
			}
			return gated, all, nil
		},
		run: run,
	}
}

// handle runs the handler of a tool. Its result is never nil without an error.
func (t *tool) handle(ctx context.Context, c Call, in Gated) (*Result, error) {
	res, err := t.run(ctx, c, in)
	if err == nil && res == nil {
		res = &Result{}
	}
	return res, err
}

// schemas are the schemas of a tool, one per field of ToolInfo.
type schemas struct{ input, output, result json.RawMessage }

// describe makes the schemas of a tool, which takes longer than all else that a
// server does to start. No call needs them, so they wait for the first list.
func describe(t Tool, in reflect.Type) (all schemas, err error) {
	schema, err := schemaOf(in)
	if err != nil {
		return all, fmt.Errorf("input type: %w", err)
	}
	if err := pairs(schema); err != nil {
		return all, fmt.Errorf("input type: %w", err)
	}
	withoutNull(schema, true)
	for at, words := range t.Words {
		if err := enumerate(schema, at, words); err != nil {
			return all, fmt.Errorf("input type: %w", err)
		}
	}
	if schema.Properties == nil {
		schema.Properties = map[string]*jsonschema.Schema{} // some clients want it even if empty
	}
	if all.input, err = json.Marshal(schema); err != nil {
		return all, fmt.Errorf("input schema: %w", err)
	}
	if t.Output == nil {
		return all, nil
	}
	if schema, err = schemaOf(reflect.TypeOf(t.Output)); err != nil {
		return all, fmt.Errorf("output type: %w", err)
	}
	if all.result, err = json.Marshal(schema); err != nil {
		return all, fmt.Errorf("result schema: %w", err)
	}
	if all.output, err = json.Marshal(outline(schema)); err != nil {
		return all, fmt.Errorf("output schema: %w", err)
	}
	return all, nil
}

// enumerate says in a schema which words a member takes.
func enumerate(s *jsonschema.Schema, at string, words []string) error {
	for name := range strings.SplitSeq(at, ".") {
		if s.Items != nil {
			s = s.Items
		}
		if s = s.Properties[name]; s == nil {
			return fmt.Errorf("the member %s does not exist", at)
		}
	}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return nil
}

// schemaOf is the schema of a type.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		return nil, err
	}
	withoutNull(schema, false)
	return schema, nil
}

// pairs makes the maps of texts in an input schema arrays of names and values: strict modes
// take no object whose members are not known. The object is taken as well, and is what
// policies, people and logs see. A map of any values stays an object.
func pairs(s *jsonschema.Schema) error {
	for name, p := range s.Properties {
		if p.Type == "object" && p.Properties == nil {
			switch of := p.AdditionalProperties; {
			case of == nil:
				return fmt.Errorf("member %s: a map must have texts or any values", name)
			case of.Type == "" && of.Types == nil:
				p.AdditionalProperties = nil // nil says the same
				continue
			case of.Type != "string":
				return fmt.Errorf("member %s: a map must have texts or any values", name)
			}
			items, err := schemaOf(reflect.TypeFor[pair]())
			if err != nil {
				return err
			}
			p.Type, p.Items, p.AdditionalProperties = "array", items, nil
		} else if err := pairs(p); err != nil {
			return err
		}
	}
	if s.Items != nil {
		return pairs(s.Items)
	}
	return nil
}

// outline is the output schema that clients get: the members and their types.
// Texts that are not always there are left out, because the text of a result has
// them as well. Models read the whole of tools/list before they do anything, and
// the deeper levels would be two thirds of it. Nothing is required, because a
// refused call has none of the members.
func outline(schema *jsonschema.Schema) *jsonschema.Schema {
	out := &jsonschema.Schema{
		Type: "object", PropertyOrder: schema.PropertyOrder,
		Properties: make(map[string]*jsonschema.Schema, len(schema.Properties)),
	}
	for name, p := range schema.Properties {
		if p.Type != "string" || slices.Contains(schema.Required, name) {
			out.Properties[name] = &jsonschema.Schema{Type: p.Type, Types: p.Types}
		}
	}
	return out
}

// withoutNull takes null from the types of optional members: a value is either
// there or left out, and lists of types are not understood by all clients. With all, which
// is for arguments, null is taken from required members too.
func withoutNull(s *jsonschema.Schema, all bool) {
	for name, p := range s.Properties {
		if i := slices.Index(p.Types, "null"); i >= 0 && len(p.Types) == 2 && (all || !slices.Contains(s.Required, name)) {
			p.Type, p.Types = p.Types[1-i], nil
		}
		withoutNull(p, all)
	}
	for _, sub := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if sub != nil {
			withoutNull(sub, all)
		}
	}
}

// annotations are the hints of a tool, for clients and for policies.
func (t Tool) annotations() map[string]bool {
	return map[string]bool{
		"readOnlyHint": t.ReadOnly, "destructiveHint": t.Destructive && !t.ReadOnly,
		"idempotentHint": t.Idempotent, "openWorldHint": t.OpenWorld,
	}
}
