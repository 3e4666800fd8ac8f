package upstreams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/mcp/wire"
)

// ReceivedTool is a tool that every server has but does not list. Its result is the
// messages that the client has sent, one on each line, at most the last maxReceived.
const ReceivedTool = "received"

// maxReceived is the most messages that a server remembers.
const maxReceived = 1000

// object is a JSON object whose members keep their order.
type object struct{ bytes.Buffer }

// add adds a member with a value that encoding/json can encode.
func (o *object) add(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil { // invalid JSON in a test
		text = []byte(fmt.Sprintf("%q", err.Error()))
	}
	o.addRaw(strconv.Quote(name), text)
}

func (o *object) addRaw(quoted string, text []byte) {
	sep := ","
	if o.Len() == 0 {
		sep = "{"
	}
	fmt.Fprintf(o, "%s%s:%s", sep, quoted, text)
}

// text returns the object.
func (o *object) text() []byte {
	if o.Len() == 0 {
		return []byte("{}")
	}
	return append(o.Bytes(), '}')
}

// answer returns the result of a request, or an error, like a server without rules.
func (c *conversation) answer(m *wire.Message) ([]byte, *wire.Error) {
	if result, ok := c.server.Results[m.Method]; ok {
		return result, nil
	}
	var o object
	switch m.Method {
	case "initialize":
		version := wire.Text(wire.Member(m.Params, "protocolVersion"))
		if !slices.Contains(wire.LegacyRevisions, version) {
			version = wire.LegacyRevisions[0]
		}
		o.add("protocolVersion", version)
		c.describe(&o)
		o.add("serverInfo", c.info())
	case "server/discover":
		if !c.server.Modern {
			return nil, unknown(m)
		}
		o.add("supportedVersions", []string{wire.ModernRevision})
		c.describe(&o)
		o.add("_meta", map[string]any{wire.ServerKey: c.info()})
	case "ping":
	case "tools/list":
		o.addRaw(`"tools"`, c.definitions())
	case "tools/call":
		result, bad := c.call(m)
		if bad != nil {
			return nil, bad
		}
		for name, value := range members(result) {
			o.addRaw(name, value)
		}
	default:
		return nil, unknown(m)
	}
	if c.server.Modern && m.Era() == wire.Modern {
		o.add("resultType", "complete")
		if m.Method != "tools/call" {
			o.add("ttlMs", 0)
			o.add("cacheScope", "private")
		}
	}
	return o.text(), nil
}

func unknown(m *wire.Message) *wire.Error {
	return wire.Errorf(wire.MethodNotFound, "method not found: %.64s", m.Method)
}

// members returns an iterator over the members of an object, with their names quoted.
func members(of []byte) func(yield func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		wire.Members(of, func(name, value []byte) bool {
			quoted, err := json.Marshal(string(name))
			return err == nil && yield(string(quoted), value)
		})
	}
}

// describe adds the members that the answers to initialize and server/discover share.
func (c *conversation) describe(o *object) {
	o.addRaw(`"capabilities"`, []byte(`{"tools":{"listChanged":true}}`))
	if c.server.Instructions != "" {
		o.add("instructions", c.server.Instructions)
	}
}

func (c *conversation) info() map[string]string {
	name := c.server.Name
	if name == "" {
		name = "upstream"
	}
	return map[string]string{"name": name, "version": "1"}
}

// tools returns the tools that are listed now.
func (c *conversation) tools() []Tool {
	switch {
	case c.changed:
		return c.server.Changed
	case c.server.Tools == nil:
		return []Tool{Echo}
	}
	return c.server.Tools
}

func (c *conversation) definitions() []byte {
	var all bytes.Buffer
	for _, t := range c.tools() {
		for i := range max(1, t.Times) {
			if all.Len() > 0 {
				all.WriteByte(',')
			}
			all.Write(t.definition(i))
		}
	}
	return []byte("[" + all.String() + "]")
}

// named returns the name of the ith copy of the tool in a list.
func (t Tool) named(i int) string {
	if t.Times == 0 {
		return t.Name
	}
	return t.Name + strconv.Itoa(i)
}

// definition returns the definition of the ith copy of the tool in a list.
func (t Tool) definition(i int) []byte {
	var o object
	o.add("name", t.named(i))
	o.add("description", t.Description+strings.Repeat("x", t.Padding))
	schema := []byte(t.Schema)
	if schema == nil {
		schema = []byte(strings.Repeat(`{"type":"object","properties":{"a":`, t.Depth) + `{"type":"object"}` + strings.Repeat(`}}`, t.Depth))
	}
	o.addRaw(`"inputSchema"`, schema)
	for name, value := range members(t.More) {
		o.addRaw(name, value)
	}
	return o.text()
}

func (c *conversation) call(m *wire.Message) ([]byte, *wire.Error) {
	name := wire.Text(wire.Member(m.Params, "name"))
	if name == ReceivedTool {
		return textResult(strings.Join(c.received(), "\n")), nil
	}
	for _, t := range c.tools() {
		for i := range max(1, t.Times) {
			if t.named(i) != name {
				continue
			}
			if t.Result != nil {
				return t.Result, nil
			}
			return textResult(string(wire.Member(m.Params, "arguments"))), nil
		}
	}
	return nil, wire.Errorf(wire.InvalidParams, "unknown tool: %.64q", name)
}

func textResult(text string) []byte {
	var o object
	o.add("content", []map[string]string{{"type": "text", "text": text}})
	return o.text()
}

// note records a message of the client.
func (c *conversation) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.log) == maxReceived {
		c.log = slices.Delete(c.log, 0, 1)
	}
	c.log = append(c.log, line)
}

// received returns the messages of the client, the last maxReceived of them.
func (c *conversation) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}
