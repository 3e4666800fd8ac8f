package openai

import (
	"encoding/json"
	"errors"
	"fmt"
)

// bare is a Function without its methods, for embedding next to other members.
type bare Function

// schema is the schema of an object: the members that are read, and the rest unchanged.
type schema struct {
	Properties map[string]json.RawMessage
	Required   []string
	rest       map[string]json.RawMessage
}

// objectSchema reads a schema whose type is "object".
func objectSchema(text []byte) (schema, error) {
	var s schema
	if err := object(text); err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s.rest); err != nil {
		return s, err
	}
	var kind string
	if raw, ok := s.rest["type"]; !ok || json.Unmarshal(raw, &kind) != nil || kind != "object" {
		return s, errors.New(`its type is not "object"`)
	}
	for name, into := range map[string]any{"properties": &s.Properties, "required": &s.Required} {
		raw, ok := s.rest[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

// properties reads parameters that are a map of names to schemas.
func properties(text []byte) (schema, error) {
	var s schema
	if err := object(text); err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s.Properties); err != nil {
		return s, err
	}
	for name, raw := range s.Properties {
		if err := object(raw); err != nil {
			return s, fmt.Errorf("%.80q: a parameter is described by an object: %w", name, err)
		}
	}
	s.rest = map[string]json.RawMessage{"type": json.RawMessage(`"object"`)}
	return s, nil
}

// text returns the schema as JSON, with its members sorted by name.
func (s schema) text() (json.RawMessage, error) {
	out := make(map[string]any, len(s.rest)+2)
	for name, raw := range s.rest {
		out[name] = raw
	}
	out["properties"] = s.Properties
	if s.Properties == nil {
		out["properties"] = struct{}{}
	}
	if len(s.Required) > 0 {
		out["required"] = s.Required
	}
	return json.Marshal(out)
}
