package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"belljar.dev/mcp/wire"
)

// definition is how an upstream describes a tool, under the name that this server gives the
// tool.
type definition struct {
	modern, legacy json.RawMessage // definition for the clients of each era
	hints          map[string]bool // annotations that policies know
	repeats        *wire.Repeats   // arguments that headers repeat
}

// kinds are the first bytes that the values of a definition's members must have, because
// common clients check them. These clients drop the whole list if one value has another
// type.
var kinds = map[string]byte{
	"title": '"', "description": '"', "inputSchema": '{', "outputSchema": '{', "annotations": '{', "_meta": '{', "execution": '{', "icons": '[',
}

// hintNames are the annotations that policies know.
var hintNames = []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}

// readDefinition reads a definition of an upstream, or returns an error if clients could
// not read it. Members that this server does not know are not changed.
func readDefinition(raw json.RawMessage, name string) (*definition, error) {
	if len(raw) > definitionMost {
		return nil, fmt.Errorf("its definition has %d bytes, more than %d", len(raw), definitionMost)
	}
	if err := wire.CheckJSON(raw, definitionDeep); err != nil {
		return nil, fmt.Errorf("its definition cannot be read: %w", err)
	}
	raw = bytes.TrimSpace(raw)
	if !wire.IsObject(raw) {
		return nil, errors.New("its definition is not an object")
	}
	d := &definition{hints: make(map[string]bool)}
	var all [2][]byte // JSON text of each era
	all[wire.Legacy] = wire.AppendQuoted([]byte(`{"name":`), name)
	all[wire.Modern] = bytes.Clone(all[wire.Legacy])
	var bad error
	wire.Members(raw, func(member, value []byte) bool {
		key := string(member)
		want := kinds[key]
		switch {
		case key == "name":
			return true
		case want != 0 && string(value) == "null":
			return true // null is left out, because clients refuse it
		case want != 0 && value[0] != want:
			bad = fmt.Errorf("%s of its definition is %s", key, kindOf(value))
			return false
		case key == "annotations":
			bad = d.readHints(value)
		}
		for _, in := range []wire.Era{wire.Legacy, wire.Modern} {
			if key == "outputSchema" && in == wire.Legacy && !isObjectSchema(value) {
				continue // the legacy era supports only schemas of objects
			}
			all[in] = append(wire.AppendQuoted(append(all[in], ','), key), ':')
			all[in] = append(all[in], value...)
		}
		return bad == nil
	})
	schema := wire.Member(raw, "inputSchema")
	switch {
	case bad != nil:
		return nil, bad
	case !isObjectSchema(schema):
		return nil, errors.New("its inputSchema is not the schema of an object")
	}
	d.repeats = wire.ReadRepeats(schema)
	for in, to := range map[wire.Era]*json.RawMessage{wire.Legacy: &d.legacy, wire.Modern: &d.modern} {
		var line bytes.Buffer
		if err := json.Compact(&line, append(all[in], '}')); err != nil {
			return nil, fmt.Errorf("its definition cannot be read: %w", err)
		}
		*to = line.Bytes()
	}
	if bytes.Equal(d.legacy, d.modern) {
		d.legacy = d.modern // nearly always equal, so it is stored once
	}
	return d, nil
}

// entryKinds are the first bytes that the values of the members of a resource, a template
// and a prompt must have, for the same reason as kinds; 0 means a number.
var entryKinds = map[string]byte{
	"name": '"', "title": '"', "description": '"', "mimeType": '"', "size": 0, "annotations": '{', "_meta": '{', "icons": '[', "arguments": '[',
}

// readEntry returns the definition of an upstream's resource, template or prompt in the
// form that clients read; nil if they cannot read it. id is the member that contains its
// name, and as is the name that this server gives it. If as is empty, it keeps its own
// name.
func readEntry(raw json.RawMessage, id, as string) json.RawMessage {
	if len(raw) > definitionMost || wire.CheckJSON(raw, definitionDeep) != nil {
		return nil
	}
	raw = bytes.TrimSpace(raw)
	if !wire.IsObject(raw) || wire.Text(wire.Member(raw, id)) == "" || wire.Member(raw, "name") == nil {
		return nil
	}
	out, good := []byte{'{'}, true
	wire.Members(raw, func(member, value []byte) bool {
		key := string(member)
		want, known := entryKinds[key]
		number := value[0] == '-' || '0' <= value[0] && value[0] <= '9'
		switch {
		case key == id && as != "":
			value = wire.AppendQuoted(nil, as)
		case !known:
		case string(value) == "null" && key != "name":
			return true // null is left out, because clients refuse it
		case want != 0 && value[0] != want || want == 0 && !number || key == "arguments" && !areArguments(value):
			good = false
			return false
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(wire.AppendQuoted(out, key), ':'), value...)
		return true
	})
	if !good {
		return nil
	}
	return append(out, '}')
}

// areArguments reports whether each element of an array is an argument of a prompt.
func areArguments(array []byte) bool {
	good := true
	wire.Elements(array, func(argument []byte) bool {
		name := wire.Member(argument, "name")
		good = wire.IsObject(argument) && len(name) > 0 && name[0] == '"'
		return good
	})
	return good
}

// readHints stores the hints that policies know.
func (d *definition) readHints(annotations []byte) error {
	for _, hint := range hintNames {
		switch value := wire.Member(annotations, hint); string(value) {
		case "":
		case "true", "false":
			d.hints[hint] = string(value) == "true"
		default:
			return fmt.Errorf("%s of its annotations is %s", hint, kindOf(value))
		}
	}
	return nil
}

// isObjectSchema reports whether a value is a JSON schema of an object in the form that
// common clients check. It checks properties and required, and nothing deeper.
func isObjectSchema(schema []byte) bool {
	ok := wire.IsObject(schema) && wire.Text(wire.Member(schema, "type")) == "object"
	if properties := wire.Member(schema, "properties"); ok && properties != nil {
		ok = wire.IsObject(properties)
		wire.Members(properties, func(_, property []byte) bool {
			ok = ok && wire.IsObject(property)
			return ok
		})
	}
	if required := wire.Member(schema, "required"); ok && required != nil {
		ok = required[0] == '['
		wire.Elements(required, func(name []byte) bool {
			ok = ok && name[0] == '"'
			return ok
		})
	}
	return ok
}
