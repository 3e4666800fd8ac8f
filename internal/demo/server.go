package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"belljar.dev/mcp/wire"
)

const (
	maxLine  = 1 << 20 // size of a message in bytes
	maxDepth = 64      // nesting depth of a message
)

// Server is an MCP server. Arithmetic and Files return one.
type Server struct {
	// WrongID makes the server answer initialize with the id 0, whatever id the request
	// has. The published transcript has this fault, and so do some servers. All other
	// answers have the ids of their requests.
	WrongID bool

	about   string // result of initialize, in JSON
	strict  bool   // whether requests are refused before the notification initialized
	tools   []tool
	methods map[string]method // further methods, except initialize, ping and those of tools
}

// method answers a request. Its error is a *wire.Error if the request is not valid.
type method func(params []byte) (any, error)

// tool is one tool of a server.
type tool struct {
	name       string
	definition string // JSON in the form of tools/list
	// call returns the text of the result. Its error is a *wire.Error if the schema does
	// not allow the arguments. Any other error becomes the result of a failed call.
	call func(args []byte) (string, error)
}

// Serve answers the messages of one client until the end of in. A server can serve many
// clients, one after the other or at the same time.
func (s *Server) Serve(in io.Reader, out io.Writer) error {
	lines := wire.NewLineReader(in, maxLine)
	c := conversation{Server: s}
	for {
		line, err := lines.Next()
		long, isLong := errors.AsType[*wire.LongLineError](err)
		var answer []byte
		switch {
		case isLong:
			answer = wire.Errorf(wire.InvalidRequest, "invalid request: the line is longer than %d bytes and was skipped", maxLine).Frame(long.ID, wire.Legacy)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read from the client: %w", err)
		default:
			answer = c.line(wire.TrimLine(line))
		}
		if answer == nil {
			continue
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return fmt.Errorf("answer the client: %w", err)
		}
	}
}

// phase is the progress of a client's handshake.
type phase int

const (
	fresh   phase = iota
	greeted       // initialize has been answered
	ready         // the client has sent the notification initialized
)

// conversation is the state of a server for one client.
type conversation struct {
	*Server
	phase phase
}

// line returns the answer to a line of the client; nil for a line without an answer.
func (c *conversation) line(line []byte) []byte {
	if len(line) == 0 {
		return nil
	}
	if bad := wire.CheckLine(line, maxDepth); bad != nil {
		return bad.Frame(wire.RequestID(line), wire.Legacy)
	}
	m, bad := wire.ParseMessage(line)
	switch {
	case bad != nil && m.IsNotification():
		return nil
	case bad != nil:
		return bad.Frame(m.ID, wire.Legacy)
	case m.IsNotification():
		// Some clients forget the prefix.
		if c.phase == greeted && (m.Method == "notifications/initialized" || m.Method == "initialized") {
			c.phase = ready
		}
		return nil
	case !m.IsRequest(): // a response, although this server sends no requests
		return nil
	}
	result, err := c.request(m)
	var text []byte
	if err == nil {
		text, err = encode(result)
	}
	if err != nil {
		return wire.AsError(err).Frame(m.ID, wire.Legacy)
	}
	if c.WrongID && m.Method == "initialize" {
		return wire.ResultFrame([]byte("0"), text)
	}
	return wire.ResultFrame(m.ID, text)
}

// encode returns v as JSON, without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// request returns the result of a request, or an error if the request is not allowed at
// this time.
func (c *conversation) request(m *wire.Message) (any, error) {
	switch m.Method {
	case "initialize":
		return c.initialize(m.Params)
	case "ping":
		return struct{}{}, nil
	}
	answer := c.methods[m.Method]
	switch m.Method {
	case "tools/list":
		answer = c.listTools
	case "tools/call":
		answer = c.callTool
	}
	switch {
	case answer == nil: // checked first: a newer client calls a method to find out how old this server is
		return nil, wire.Errorf(wire.MethodNotFound, "method not found: %.64q", m.Method)
	case c.phase == fresh:
		return nil, wire.Errorf(wire.InvalidRequest, "invalid request: %s came before initialize", m.Method)
	case c.strict && c.phase == greeted:
		return nil, wire.Errorf(wire.InvalidRequest, "invalid request: %s came before the notification notifications/initialized", m.Method)
	}
	return answer(m.Params)
}

func (c *conversation) initialize(params []byte) (any, error) {
	if c.phase != fresh {
		return nil, wire.Errorf(wire.InvalidRequest, "invalid request: initialize came twice")
	}
	if _, err := text(params, "protocolVersion"); err != nil {
		return nil, err
	}
	c.phase = greeted
	return json.RawMessage(c.about), nil
}

// text returns a member that must be a string.
func text(object []byte, name string) (string, error) {
	value := wire.Member(object, name)
	switch {
	case value == nil:
		return "", wire.Errorf(wire.InvalidParams, "invalid params: %q is missing", name)
	case value[0] != '"':
		return "", wire.Errorf(wire.InvalidParams, "invalid params: %q must be a string, got %.64s", name, value)
	}
	return wire.Unquote(value), nil
}

func (s *Server) listTools([]byte) (any, error) {
	all := make([]json.RawMessage, len(s.tools))
	for i, t := range s.tools {
		all[i] = json.RawMessage(t.definition)
	}
	return map[string]any{"tools": all}, nil
}

// result is the result of a tool call.
type result struct {
	Content []content `json:"content"`
	IsError bool      `json:"isError,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (s *Server) callTool(params []byte) (any, error) {
	name, err := text(params, "name")
	if err != nil {
		return nil, err
	}
	args := wire.Member(params, "arguments")
	if args != nil && !wire.IsObject(args) {
		return nil, wire.Errorf(wire.InvalidParams, `invalid params: "arguments" must be an object, got %.64s`, args)
	}
	for _, t := range s.tools {
		if t.name != name {
			continue
		}
		answer, err := t.call(args)
		if invalid, ok := errors.AsType[*wire.Error](err); ok {
			return nil, invalid
		}
		failed := err != nil
		if failed {
			answer = err.Error()
		}
		return result{[]content{{"text", answer}}, failed}, nil
	}
	return nil, wire.Errorf(wire.InvalidParams, "invalid params: tool %.64q does not exist", name)
}

// empty returns a method that answers a request for a list with an empty list.
func empty(name string) method {
	return func([]byte) (any, error) { return map[string]any{name: []any{}}, nil }
}
