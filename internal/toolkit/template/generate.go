package template

import (
	"embed"
	"fmt"
)

//go:embed texts
var texts embed.FS

// Generated is a file that was made from a template.
type Generated struct {
	Template   Template
	Content    string
	Parameters map[string]any // parameters that were used: those of the call, and the defaults
}

// Validate returns what is wrong with the parameters for a template; nil if Generate
// accepts the parameters. The error is ErrURI or ErrNotFound.
func Validate(uri string, parameters map[string]any) ([]Fault, error) {
	t, err := Find(uri)
	if err != nil {
		return nil, err
	}
	_, faults := t.check(parameters)
	return append(faults, strange(parameters, t)...), nil
}

// Generate makes the file of a template. The error is ErrURI, ErrNotFound or an [*Invalid].
func Generate(uri string, parameters map[string]any) (*Generated, error) {
	t, err := Find(uri)
	if err != nil {
		return nil, err
	}
	used, faults := t.check(parameters)
	if faults = append(faults, strange(parameters, t)...); len(faults) > 0 {
		return nil, &Invalid{t.URI.String(), faults}
	}
	return t.generate(used)
}

// Preview makes the file of a template with its defaults, and with the examples of the
// required parameters. The error is ErrURI or ErrNotFound.
func Preview(uri string) (*Generated, error) {
	t, err := Find(uri)
	if err != nil {
		return nil, err
	}
	used := make(map[string]any, len(t.Parameters))
	for _, p := range t.Parameters {
		if used[p.Name] = p.Default; p.Required {
			used[p.Name] = p.Example
		}
	}
	return t.generate(used)
}

// generate makes the file of a template with parameters that have been checked.
func (t Template) generate(used map[string]any) (*Generated, error) {
	text, err := texts.ReadFile("texts/" + t.URI.Category + "/" + t.URI.Toolchain + "/" + t.URI.Variant + ".tmpl")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.URI, err)
	}
	content, err := fill(t.URI.String(), string(text), used)
	if err != nil {
		return nil, err
	}
	return &Generated{t, content, used}, nil
}
