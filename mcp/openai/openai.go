// Package openai converts between MCP's tools and the functions of models that call
// functions: the definitions, the calls and the results, each in both directions. It moves
// no data and calls nothing. The caller runs the tools and enforces the policy.
//
// A host that has an MCP server's tools/list passes it to [New] and shows the model
// [Adapter.Functions]. It turns a model's call into a tools/call with [Adapter.Call], and
// the result into what the model reads with [FromResult]. A host that has functions reads
// them with [ParseFunctions], and offers them as tools with [Function.Tool] and
// [Output.Result].
package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Tool is a tool in a tools/list. Other members are not kept.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// Function is the definition of a function for a model. Parameters is a JSON Schema of an
// object. Required repeats the schema's own list, because some hosts want it next to the
// parameters.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Required    []string        `json:"required,omitempty"`
}

// Call is a model's call: the name of a function, and the JSON text of its arguments.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Adapter presents the tools of one server as functions. It never changes, so it is safe
// for concurrent use.
type Adapter struct {
	names     *Names
	functions []Function
}

// New returns an adapter for a server's tools. It returns an error if NewNames does, or if
// an input schema is not the schema of an object.
func New(tools []Tool) (*Adapter, error) {
	all := make([]string, 0, len(tools))
	for _, t := range tools {
		all = append(all, t.Name)
	}
	names, err := NewNames(all)
	if err != nil {
		return nil, err
	}
	a := &Adapter{names: names}
	for _, t := range tools {
		s, err := objectSchema(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("convert tool %.80q: input schema: %w", t.Name, err)
		}
		name, _ := names.Function(t.Name)
		a.functions = append(a.functions, Function{Name: name, Description: t.Description, Parameters: t.InputSchema, Required: s.Required})
	}
	slices.SortFunc(a.functions, func(f, g Function) int { return bytes.Compare([]byte(f.Name), []byte(g.Name)) })
	return a, nil
}

// Functions returns the tools as functions, sorted by name.
func (a *Adapter) Functions() []Function { return slices.Clone(a.functions) }

// Call returns the tool that a call names, and its arguments. It returns an error for an
// unknown function, and for arguments that are not a JSON object. Empty arguments count as
// an empty object, because models send them for functions without parameters.
func (a *Adapter) Call(c Call) (tool string, arguments json.RawMessage, err error) {
	tool, known := a.names.Tool(c.Name)
	if !known {
		return "", nil, fmt.Errorf("call function %.80q: no function has this name", c.Name)
	}
	text := bytes.TrimSpace([]byte(c.Arguments))
	if len(text) == 0 {
		return tool, json.RawMessage(`{}`), nil
	}
	if err := object(text); err != nil {
		return "", nil, fmt.Errorf("call function %s: arguments: %w", c.Name, err)
	}
	return tool, json.RawMessage(text), nil
}

// Tool returns the function as a tool. Parameters may be a schema, or only the properties
// of a schema; Required is added to the properties that the schema requires.
func (f Function) Tool() (Tool, error) {
	none := Tool{}
	if f.Name == "" || len(f.Name) > nameMost || plain(f.Name) != f.Name {
		return none, fmt.Errorf("convert function %.80q: the name must be 1 to %d letters, digits, _ or -", f.Name, nameMost)
	}
	text := bytes.TrimSpace(f.Parameters)
	if len(text) == 0 || string(text) == "null" {
		text = []byte(`{"type":"object","properties":{}}`)
	}
	s, err := objectSchema(text)
	if err != nil {
		if s, err = properties(text); err != nil {
			return none, fmt.Errorf("convert function %s: parameters: %w", f.Name, err)
		}
	}
	for _, name := range f.Required {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
	for _, name := range s.Required {
		if _, known := s.Properties[name]; !known {
			return none, fmt.Errorf("convert function %s: %.80q is required, but is not a parameter", f.Name, name)
		}
	}
	raw, err := s.text()
	if err != nil {
		return none, fmt.Errorf("convert function %s: parameters: %w", f.Name, err)
	}
	return Tool{Name: f.Name, Description: f.Description, InputSchema: raw}, nil
}

// ParseFunctions reads an array of functions, or a single function, in all forms that are
// in use: the bare function, the function with "type":"function" next to the name, or the
// function in a member "function".
func ParseFunctions(text []byte) ([]Function, error) {
	if len(text) > textMost {
		return nil, fmt.Errorf("read functions: got %d bytes, want at most %d", len(text), textMost)
	}
	text = bytes.TrimSpace(text)
	var all []json.RawMessage
	if len(text) > 0 && text[0] == '{' {
		all = []json.RawMessage{text}
	} else if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read functions: %w", err)
	}
	if len(all) > toolsMost {
		return nil, fmt.Errorf("read functions: got %d, want at most %d", len(all), toolsMost)
	}
	out := make([]Function, 0, len(all))
	for i, raw := range all {
		var one struct {
			Type     string    `json:"type"`
			Function *Function `json:"function"`
			bare
		}
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("read function %d: %w", i+1, err)
		}
		f := Function(one.bare)
		switch {
		case one.Type != "" && one.Type != "function":
			return nil, fmt.Errorf("read function %d: its type is %.40q, want function", i+1, one.Type)
		case one.Function != nil && f.Name != "":
			return nil, fmt.Errorf("read function %d: it has two names, its own and that of its member function", i+1)
		case one.Function != nil:
			f = *one.Function
		}
		if f.Name == "" {
			return nil, fmt.Errorf("read function %d: it has no name", i+1)
		}
		out = append(out, f)
	}
	return out, nil
}

// object reports whether a text is one JSON object.
func object(text []byte) error {
	var members map[string]json.RawMessage
	if len(text) > textMost {
		return fmt.Errorf("got %d bytes, want at most %d", len(text), textMost)
	}
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if members == nil {
		return errors.New("got null, want an object")
	}
	return nil
}
