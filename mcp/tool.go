package mcp

import (
	"context"
	"fmt"

	"belljar.dev/policies"
)

// Tool is what a client is told about a tool.
type Tool struct {
	Name        string // letters, digits, "_" and "-", at most 64: clients refuse others
	Title       string // for people
	Description string // for the agent

	ReadOnly    bool // changes nothing
	Destructive bool // may remove or overwrite; meaningless if ReadOnly
	Idempotent  bool // twice is as once
	OpenWorld   bool // reaches beyond this machine

	// Output is the zero value of the type that Result.Structured holds, from
	// which the output schema is made; nil for a tool without one.
	Output any
	// MaxResultChars, if not zero, asks the client to take results up to this
	// many characters whole instead of cutting them.
	MaxResultChars int
}

// Handler runs one call of a tool. What it returns as error is told to the
// agent as a failed call, so its text must say what to do; an error result
// made by hand does the same. Its ctx ends when the client cancels the call,
// the session ends or the server shuts down; a handler must then return soon.
type Handler[In Gated] func(ctx context.Context, call Call, in In) (*Result, error)

// Call is what a handler knows of the call it serves, besides its input.
type Call struct {
	ID      string // "c-" and random letters; stands in refusals and logs
	Session *Session
	Tool    string
	Grant   policies.Grant
	// Progress tells the client how far the call is, if it asked to be told;
	// otherwise it does nothing. total is zero where it is not known. It never
	// waits for a slow client for long: reports that cannot be sent are lost.
	Progress func(done, total float64, message string)
}

// Result is the answer of a tool.
type Result struct {
	Content    []Content
	Structured any // marshalled as structuredContent; nil for none
	IsError    bool
}

// Content is one part of a result: text, an image (Data and MIME) or a link to
// a resource (URI, with Text as its name and MIME). Data wins over URI, and
// URI over Text.
type Content struct {
	Text string
	Data []byte
	MIME string
	URI  string
}

// Text is a result that holds one text.
func Text(format string, args ...any) *Result {
	return &Result{Content: []Content{{Text: sprintf(format, args)}}}
}

// Failed is an error result that holds one text, for the agent.
func Failed(format string, args ...any) *Result {
	return &Result{Content: []Content{{Text: sprintf(format, args)}}, IsError: true}
}

func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// AddTool registers a tool. The input schema is made from In: its fields by
// their json tags, required unless omitempty or omitzero, with the jsonschema
// tag as description. It panics if the tool cannot be registered, which is a
// mistake of this program: two tools of one name, a bad name, a type without a
// schema.
func AddTool[In Gated](s *Server, t Tool, h Handler[In]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools[t.Name] = &tool{info: ToolInfo{Tool: t}}
}

type tool struct{ info ToolInfo }
