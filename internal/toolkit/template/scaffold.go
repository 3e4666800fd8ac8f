package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxScaffold is the largest number of templates in one scaffold.
const maxScaffold = 32

// Scaffold makes the files of a project, in the order of names. A name is a category, for
// example "makefile", or a URI. The templates share the parameters: each template uses the
// parameters that it has, and a parameter that no template has is a fault. If one file
// cannot be made, none is returned. The error is ErrURI, ErrNotFound or an [*Invalid].
func Scaffold(toolchain string, names []string, parameters map[string]any) ([]*Generated, error) {
	if !slices.Contains(Toolchains(), toolchain) || toolchain == AnyToolchain {
		known := slices.DeleteFunc(Toolchains(), func(t string) bool { return t == AnyToolchain })
		return nil, &Invalid{Faults: []Fault{{"toolchain", fmt.Sprintf("%s is not a toolchain; known: %s", shown(toolchain), strings.Join(known, ", "))}}}
	}
	chosen, err := choose(toolchain, names)
	if err != nil {
		return nil, err
	}
	var files []*Generated
	var faults []Fault
	for _, t := range chosen {
		used, some := t.check(parameters)
		for _, f := range some {
			if !slices.Contains(faults, f) { // several templates may have the parameter
				faults = append(faults, f)
			}
		}
		if len(faults) > 0 {
			continue
		}
		made, err := t.generate(used)
		if err != nil {
			return nil, err
		}
		files = append(files, made)
	}
	if faults = append(faults, strange(parameters, chosen...)...); len(faults) > 0 {
		return nil, &Invalid{Faults: faults}
	}
	return files, nil
}

// choose returns the templates of the names.
func choose(toolchain string, names []string) ([]Template, error) {
	if len(names) == 0 || len(names) > maxScaffold {
		return nil, &Invalid{Faults: []Fault{{"templates", fmt.Sprintf("has %d entries, and must have 1 to %d", len(names), maxScaffold)}}}
	}
	chosen, paths := make([]Template, 0, len(names)), make(map[string]string)
	for _, name := range names {
		t, err := pick(toolchain, name)
		if err != nil {
			return nil, err
		}
		if other, twice := paths[t.Path]; twice {
			return nil, &Invalid{Faults: []Fault{{"templates", fmt.Sprintf("%s and %s both make %s", shown(other), shown(name), t.Path)}}}
		}
		paths[t.Path] = name
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// pick returns the template of a name.
func pick(toolchain, name string) (Template, error) {
	if strings.Contains(name, ":") {
		t, err := Find(name)
		if err == nil && t.URI.Toolchain != toolchain && t.URI.Toolchain != AnyToolchain {
			return t, &Invalid{Faults: []Fault{{"templates", fmt.Sprintf("%s is not for the toolchain %s", t.URI, toolchain)}}}
		}
		return t, err
	}
	known := make(map[string]bool)
	for _, t := range List(toolchain, "") {
		if t.URI.Category == name {
			return t, nil
		}
		known[t.URI.Category] = true
	}
	return Template{}, fmt.Errorf("%w: %s for %s; known: %s", ErrNotFound, shown(name), toolchain, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}
