package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The addresses that are the names of the schemas. Nothing is fetched from these addresses.
const (
	schemaDialect = "https://json-schema.org/draft/2020-12/schema"
	schemaPolicy  = "https://belljar.dev/policy-v1.schema.json"
	schemaLayer   = "https://belljar.dev/layer-v1.schema.json"
)

// Schema returns the JSON Schema (2020-12) of a policy, for editors. It is made from the
// shapes with which the decoder reads. It describes the keys and the kinds of values of
// each mapping, but not how one place of a policy depends on another: a text that it
// refuses is never a valid policy, but a text that it accepts may still have faults.
func Schema() []byte { return schemaOf(policyShape, schemaPolicy, "belljar policy, version 1") }

// LayerSchema returns the JSON Schema of a layer, a file of rules that a policy names.
func LayerSchema() []byte { return schemaOf(layerShape, schemaLayer, "belljar layer, version 1") }

// document is a complete schema: a form with all forms that it refers to.
type document struct {
	Schema string `json:"$schema"`
	ID     string `json:"$id"`
	Title  string `json:"title"`
	*form
	Defs members `json:"$defs"`
}

// form is a JSON Schema, as far as policies need one.
type form struct {
	Ref         string   `json:"$ref,omitempty"`
	Description string   `json:"description,omitempty"`
	Type        any      `json:"type,omitempty"` // the name of a type, or several names
	Const       any      `json:"const,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Examples    []any    `json:"examples,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	MaxLength   int      `json:"maxLength,omitempty"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     float64  `json:"maximum,omitempty"`

	listForm
	mappingForm

	AllOf []*form `json:"allOf,omitempty"`
	AnyOf []*form `json:"anyOf,omitempty"`
	OneOf []*form `json:"oneOf,omitempty"`
	Not   *form   `json:"not,omitempty"`
	If    *form   `json:"if,omitempty"`
	Then  *form   `json:"then,omitempty"`

	of []*shape // shapes that the form refers to
}

// listForm is the part of a schema about a list.
type listForm struct {
	Items    *form `json:"items,omitempty"`
	MinItems int   `json:"minItems,omitempty"`
	MaxItems int   `json:"maxItems,omitempty"`
}

// mappingForm is the part of a schema about a mapping.
type mappingForm struct {
	Properties        members             `json:"properties,omitempty"`
	Required          []string            `json:"required,omitempty"`
	DependentRequired map[string][]string `json:"dependentRequired,omitempty"`
	Additional        any                 `json:"additionalProperties,omitempty"` // a form, or false
	PropertyNames     *form               `json:"propertyNames,omitempty"`
	MinProperties     int                 `json:"minProperties,omitempty"`
	MaxProperties     int                 `json:"maxProperties,omitempty"`
}

// member is a schema with its name.
type member struct {
	name string
	form *form
}

// members are schemas by name, in an order for people.
type members []member

// MarshalJSON returns the members as an object, in their order.
func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		text, err := plainJSON(one.form)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plainJSON returns v in JSON, without escapes that only HTML needs.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// schemaOf returns the schema of a file of a shape, with all shapes that it needs.
func schemaOf(top *shape, id, title string) []byte {
	root := document{Schema: schemaDialect, ID: id, Title: title, form: top.form()}
	defined := map[string]bool{top.name: true}
	// waiting grows during the loop: shapes refer to further shapes.
	for waiting := root.shapes(nil); len(waiting) > 0; waiting = waiting[1:] {
		s := waiting[0]
		if defined[s.name] {
			continue
		}
		defined[s.name] = true
		f := s.form()
		root.Defs = append(root.Defs, member{s.name, f})
		waiting = f.shapes(waiting)
	}
	text, err := plainJSON(root)
	if err == nil {
		var b bytes.Buffer
		err = json.Indent(&b, text, "", "  ")
		text = append(b.Bytes(), '\n')
	}
	if err != nil { // a mistake of this program, which happens at each call or never
		panic(fmt.Sprintf("policies: schema: %v", err))
	}
	return text
}

// shapes returns all with the shapes that a form refers to.
func (f *form) shapes(all []*shape) []*shape {
	if f == nil {
		return all
	}
	all = append(all, f.of...)
	for _, m := range f.Properties {
		all = m.form.shapes(all)
	}
	if below, ok := f.Additional.(*form); ok {
		all = below.shapes(all)
	}
	all = f.Items.shapes(all)
	for _, list := range [][]*form{f.AllOf, f.AnyOf, f.OneOf} {
		for _, one := range list {
			all = one.shapes(all)
		}
	}
	return all
}
