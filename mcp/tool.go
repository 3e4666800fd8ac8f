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

// Tool is the description of a tool for clients.
type Tool struct {
	Name        string // letters, digits, "_" and "-", at most 64: clients refuse others
	Title       string // title to show to people
	Description string // description for the agent
	Brief       string // what the tool does, for README.md

	ReadOnly    bool // the tool changes nothing
	Destructive bool // the tool may remove or overwrite data; meaningless if ReadOnly
	Idempotent  bool // calling the tool twice has the effect of one call
	OpenWorld   bool // the tool reaches beyond this machine

	// Words contains the words that a member of the arguments may have, for the schema. The
	// key "steps.do" is the member do of each element of steps. A handler checks the words
	// itself.
	Words map[string][]string

	// Method makes the name of the tool a method of the protocol as well. The method's
	// params are the arguments, and its result is Result.Structured; see method.go.
	Method bool
	// Output is the zero value of the type of Result.Structured. The output schema is made
	// from it; nil for a tool without one.
	Output any
	// MaxResultChars, if not zero, asks the client not to cut results of up to this many
	// characters.
	MaxResultChars int
}

// Handler runs one call of a tool. The agent gets a returned error as a failed
// call, so the error's text must say what to do; a result with IsError does the
// same. ctx ends when the client cancels the call, the session ends or the server
// shuts down; a handler must then return soon. A panic fails the call and nothing
// else.
type Handler[In Gated] func(ctx context.Context, call Call, in In) (*Result, error)

// Call is the information that a handler has about its call, in addition to its input.
type Call struct {
	ID      string // "c-" and random letters; part of refusals and logs
	Session *Session
	Tool    string
	// Upstream is the upstream that the tool belongs to; empty for the tools of this
	// server.
	Upstream string
	Grant    policies.Grant
	// Audit is how much of the call the audit log keeps, if a rule says so.
	Audit policies.Kept
	// Scene is what the person saw who approved the call, and only this may run; nil if
	// nobody was asked.
	Scene *policies.Scene
	// Acts are the acts that were decided about, if the call acts in a browser.
	Acts []policies.Act
	// TraceID is the trace that the call belongs to (W3C Trace Context, 32
	// lower-case hexadecimal digits); empty for a call without a trace.
	TraceID string
	// Patience is how long the client waits for the answer, counted from the start of the
	// handler: the time in which a person was asked and hooks ran is subtracted. Zero means
	// that the client waits as long as the call takes.
	Patience time.Duration
	// Later is the key of a call whose client takes a handle for the answer (Tasks); empty
	// if the client waits.
	Later string
	// Depth is how many belljar servers the call has passed; see wire.Depth.
	Depth int
	// Detached is closed when nobody waits for the answer any more, and the call must still
	// continue; nil if that cannot happen.
	Detached <-chan struct{}
	// Progress reports to the client how far the call is, if the client asked for reports;
	// otherwise it does nothing. done must grow; total is zero if it is not known. Progress
	// does not wait for a slow client: reports that cannot be sent are lost. It may be
	// called from any goroutine until the handler returns.
	Progress func(done, total float64, message string)

	trace   *trace   // nil if the call is not traced
	input   *input   // input of a modern client; nil in the legacy era
	allowed *allowed // nil before the call is allowed, and if nobody can be asked
	from    *upstream
	logs    *callLogs            // nil if nobody gets the call's log messages
	redact  []policies.Redaction // redactions of the result that the policy requires
}

// allowed contains the facts and the decision of a running call, for questions of its
// handler to people. It is large, and most calls ask nobody.
type allowed struct {
	facts    policies.Facts
	decision policies.Decision
}

// Result is the answer of a tool.
type Result struct {
	Content    []Content
	Structured any // marshalled as structuredContent; nil for a result without it
	IsError    bool
	// Meta contains the members of the result's _meta, in JSON, that an upstream has set.
	Meta map[string]json.RawMessage
	// Upstream is the upstream that the result is from, set by RawResult; empty for a
	// result of this server. Clients get the name too, in the _meta.
	Upstream string
	// Task is the id of the background task that the call started, for clients that
	// know tasks; empty without one.
	Task string
	// Receipts are called when it is known whether the client has the result.
	Receipts []Receipt `json:"-"`

	needs *needs // the client must be asked first; the result has nothing else then
}

// Content is one part of a result: text, an image (Data and MIME), a link to a resource
// (URI, with Text as its name and MIME), or a block that is passed on unchanged (Raw). If
// several fields are set, Raw comes before Data, Data before URI, and URI before Text.
type Content struct {
	Text string
	Data []byte
	MIME string
	URI  string
	// Raw is a content block in JSON, on one line. For code that does not read Raw, Text is
	// then the block's text, and MIME the type or the kind of a block without text.
	Raw json.RawMessage
}

// Text returns a result that contains one text.
func Text(format string, args ...any) *Result {
	return &Result{Content: []Content{{Text: sprintf(format, args)}}}
}

// Failed returns an error result that contains one text, for the agent.
func Failed(format string, args ...any) *Result {
	return &Result{Content: []Content{{Text: sprintf(format, args)}}, IsError: true}
}

// sprintf returns a format without args unchanged: it may be a program's output, with % in
// it.
func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// tool is a registered tool with its input type erased.
type tool struct {
	info     Tool            // for an upstream's tool, only Name is set
	upstream *upstream       // nil for a tool of this server
	aliases  []string        // aliases of an upstream's tool
	names    []string        // further names by which rules match an upstream's tool; never changed
	hints    map[string]bool // annotations of the tool, for policies; never changed
	unlisted bool            // no list shows it: a search finds it
	repeats  *wire.Repeats   // arguments of an upstream's tool that headers repeat
	schemas  func() schemas  // nil for an upstream's tool
	// listed returns the tool's definition for lists, with its output schema if structured
	// is set.
	listed func(structured bool, in wire.Era) json.RawMessage
	// decode reads arguments into a value of the input type. all is a map with the same
	// arguments.
	decode func(args json.RawMessage, depth int) (in Gated, all map[string]any, err error)
	run    func(ctx context.Context, call Call, in Gated) (*Result, error)
	// prepare finds out the facts of a call; nil if the facts follow from the arguments.
	prepare func(ctx context.Context, call Call, in Gated) (policies.Facts, error)
}

// AddTool registers a tool. The input schema is made from In, which must be a struct: its
// fields by their json tags, required unless omitempty or omitzero, with the jsonschema tag
// as description. It panics if the tool cannot be registered, which is a mistake of this
// program, for example two tools of one name, or a bad name. If the type In has no schema,
// the first list of tools panics.
func AddTool[In Gated](s *Server, t Tool, h Handler[In]) { s.tools.add(newTool(t, h)) }

// newTool erases the input type of a tool. The compiler makes the code of newTool once for
// each input type, and that of toolOf only once, so toolOf has most of the code.
func newTool[In Gated](t Tool, h Handler[In]) *tool {
	return toolOf(t, reflect.TypeFor[In](), func(ctx context.Context, call Call, v Gated) (*Result, error) {
		typed, ok := v.(In)
		if !ok {
			return nil, fmt.Errorf("run %s with a %T", t.Name, v)
		}
		return h(ctx, call, typed)
	})
}

// toolOf returns a tool with the input type typ. run runs its calls.
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

// handle runs the handler of a tool. The result is never nil if the error is nil.
func (t *tool) handle(ctx context.Context, c Call, in Gated) (*Result, error) {
	res, err := t.run(ctx, c, in)
	if err == nil && res == nil {
		res = &Result{}
	}
	return res, err
}

// schemas are the schemas of a tool, one per field of ToolInfo.
type schemas struct{ input, output, result json.RawMessage }

// describe makes the schemas of a tool, which takes longer than all other steps of a
// server's start. No call needs them, so they are made for the first list.
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
		schema.Properties = map[string]*jsonschema.Schema{} // some clients require properties, even if it is empty
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

// enumerate puts the words that a member may have into a schema.
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

// schemaOf returns the schema of a type.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		return nil, err
	}
	withoutNull(schema, false)
	return schema, nil
}

// pairs changes each map of strings in an input schema to an array of names and values,
// since strict modes do not accept an object with unknown members. The server accepts the
// object as well, and policies, people and logs see the object. A map of any values stays
// an object.
func pairs(s *jsonschema.Schema) error {
	for name, p := range s.Properties {
		if p.Type == "object" && p.Properties == nil {
			switch of := p.AdditionalProperties; {
			case of == nil:
				return fmt.Errorf("member %s: a map must have texts or any values", name)
			case of.Type == "" && of.Types == nil:
				p.AdditionalProperties = nil // nil means the same as an empty schema
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

// outline returns the output schema that clients get: the members and their types. Optional
// strings are left out, because the text of a result contains them as well. Models read the
// whole of tools/list before they do anything, and the deeper levels would be two thirds of
// it. No member is required, because a refused call has none of the members.
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

// withoutNull removes null from the types of optional members: an optional value is left
// out instead, and not all clients understand lists of types. With all, which is for
// arguments, null is removed from required members too.
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

// annotations returns the hints of a tool, for clients and for policies.
func (t Tool) annotations() map[string]bool {
	return map[string]bool{
		"readOnlyHint": t.ReadOnly, "destructiveHint": t.Destructive && !t.ReadOnly,
		"idempotentHint": t.Idempotent, "openWorldHint": t.OpenWorld,
	}
}
