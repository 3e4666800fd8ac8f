package template

import (
	"fmt"
	"strings"
)

// Type is the JSON type of a parameter.
type Type string

// The types of parameters.
const (
	String  Type = "string"
	Boolean Type = "boolean"
)

// Parameter is one parameter of a template.
type Parameter struct {
	Name        string `json:"name"`
	Type        Type   `json:"type"`
	Required    bool   `json:"required"`
	Default     any    `json:"default,omitempty"` // nil if the parameter is required, or if the default is empty
	Pattern     string `json:"pattern,omitempty"` // regular expression (RE2) that a text must match
	Description string `json:"description"`
	// Example is the value of a required parameter in a preview.
	Example any `json:"example,omitempty"`
}

// Fault is what is wrong with one parameter.
type Fault struct {
	Parameter string `json:"parameter"` // clipped if the name comes from the caller
	Message   string `json:"message"`
}

// String returns the fault in one line.
func (f Fault) String() string { return fmt.Sprintf("%s: %s", f.Parameter, f.Message) }

// Invalid is the error for parameters that do not fit the schema.
type Invalid struct {
	URI    string // URI of the template; empty if several templates are meant
	Faults []Fault
}

// Error returns all faults in one line.
func (e *Invalid) Error() string {
	all := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		all[i] = f.String()
	}
	if e.URI == "" {
		return "invalid parameters: " + strings.Join(all, "; ")
	}
	return "invalid parameters of " + e.URI + ": " + strings.Join(all, "; ")
}
