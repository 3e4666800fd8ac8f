package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

// object is an object of Kubernetes, or a part of one.
type object = map[string]any

// at returns the value at a path of keys; nil if there is no value.
func at(o any, path ...string) any {
	for _, key := range path {
		inner, ok := o.(object)
		if !ok {
			return nil
		}
		o = inner[key]
	}
	return o
}

// part returns the object at a path; nil if there is no object.
func part(o any, path ...string) object {
	p, _ := at(o, path...).(object)
	return p
}

// text returns the string at a path; empty if there is no string.
func text(o any, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

// list returns the list at a path; nil if there is no list.
func list(o any, path ...string) []any {
	l, _ := at(o, path...).([]any)
	return l
}

// decode reads the documents of a YAML file.
func decode(t *testing.T, file string) (all []object) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		var one object
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(one) > 0 {
			all = append(all, one)
		}
	}
}

// schemas are the schemas of all kinds of objects. Their key is the apiVersion and the kind
// with a space between.
type schemas struct {
	definitions object            // schemas of Kubernetes, by name of the definition
	names       map[string]string // name of the definition, by apiVersion and kind
	resolved    map[string]*jsonschema.Resolved
}

// readSchemas reads the schemas that the API server of Kubernetes publishes (swagger.json),
// and the definitions of custom resources.
func readSchemas(t *testing.T, swagger string, resources ...string) *schemas {
	t.Helper()
	data, err := os.ReadFile(swagger)
	if err != nil {
		t.Fatal(err)
	}
	var doc object
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%s: %v", swagger, err)
	}
	s := &schemas{definitions: part(any(doc), "definitions"), names: make(map[string]string), resolved: make(map[string]*jsonschema.Resolved)}
	// These types also accept a number, which Swagger 2 cannot express.
	for _, name := range []string{"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"} {
		delete(part(s.definitions[name]), "type")
	}
	for name, d := range s.definitions {
		strict(d)
		if kinds := list(d, "x-kubernetes-group-version-kind"); len(kinds) == 1 {
			version := text(kinds[0], "version")
			if group := text(kinds[0], "group"); group != "" {
				version = group + "/" + version
			}
			s.names[version+" "+text(kinds[0], "kind")] = name
		}
	}
	for _, file := range resources {
		for _, r := range decode(t, file) {
			for _, v := range list(r, "spec", "versions") {
				schema := part(v, "schema", "openAPIV3Schema")
				strict(schema)
				// Every object has metadata.
				part(schema, "properties")["metadata"] = object{"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
				name := text(r, "spec", "names", "kind")
				s.definitions[name] = schema
				s.names[text(r, "spec", "group")+"/"+text(v, "name")+" "+name] = name
			}
		}
	}
	return s
}

// strict makes a schema refuse keys that it does not name, and removes what is not JSON
// Schema.
func strict(schema any) {
	switch v := schema.(type) {
	case []any:
		for _, one := range v {
			strict(one)
		}
	case object:
		for key, one := range v {
			if key == "properties" {
				for _, property := range part(one) {
					strict(property)
				}
				continue
			}
			if key == "default" || key == "enum" || key == "required" {
				continue
			}
			strict(one)
		}
		_, named := v["properties"].(object)
		if v["x-kubernetes-int-or-string"] == true {
			delete(v, "type")
		}
		if _, more := v["additionalProperties"]; named && !more && v["x-kubernetes-preserve-unknown-fields"] != true {
			v["additionalProperties"] = false
		}
		delete(v, "format")
		delete(v, "default")
	}
}

// validate returns what is wrong with an object.
func (s *schemas) validate(o object) error {
	kind := text(any(o), "apiVersion") + " " + text(any(o), "kind")
	name, ok := s.names[kind]
	if !ok {
		return fmt.Errorf("no such kind: %q", kind)
	}
	if s.resolved[name] == nil {
		// Only the definitions that this definition refers to are resolved: to resolve all
		// of them takes long.
		used := object{}
		reach(s.definitions, name, used)
		data, err := json.Marshal(object{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": used, "allOf": []any{object{"$ref": "#/definitions/" + name}}})
		if err != nil {
			return err
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(data, &schema); err != nil {
			return fmt.Errorf("the schema of %s: %w", kind, err)
		}
		if s.resolved[name], err = schema.Resolve(nil); err != nil {
			return fmt.Errorf("the schema of %s: %w", kind, err)
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	return s.resolved[name].Validate(plain)
}

// reach adds a definition, and all definitions that it refers to, to used.
func reach(all object, name string, used object) {
	if _, done := used[name]; done {
		return
	}
	used[name] = all[name]
	var look func(any)
	look = func(inside any) {
		switch v := inside.(type) {
		case []any:
			for _, one := range v {
				look(one)
			}
		case object:
			for key, one := range v {
				const prefix = "#/definitions/"
				if ref, ok := one.(string); ok && key == "$ref" && len(ref) > len(prefix) {
					reach(all, ref[len(prefix):], used)
					continue
				}
				look(one)
			}
		}
	}
	look(all[name])
}
