package policies

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var bundled embed.FS

// DefaultName is the name of the bundled policy that applies if no policy is given.
const DefaultName = "default"

// Bundled returns the names of the policies that are part of the program, in order.
func Bundled() []string {
	entries, err := bundled.ReadDir(".")
	if err != nil {
		panic("policies: " + err.Error())
	}
	all := make([]string, 0, len(entries))
	for _, e := range entries {
		all = append(all, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(all)
	return all
}

// BundledText returns the text of a bundled policy, for example as the beginning of a new
// policy file. It is empty if no bundled policy has the name.
func BundledText(name string) string {
	if !slices.Contains(Bundled(), name) {
		return ""
	}
	text, err := bundled.ReadFile(name + ".yaml")
	if err != nil {
		panic("policies: " + err.Error())
	}
	return string(text)
}

// BundledUse returns a line that says whom a bundled policy is for. It is empty if no
// bundled policy has the name.
func BundledUse(name string) string {
	line, _, _ := strings.Cut(BundledText(name), "\n")
	return strings.TrimPrefix(line, "# ")
}

// OpenBundled returns a bundled policy. It parses the text anew at each call, and leaves
// the tests of the policy to Policy.Tests: whether they pass is known before the program is
// built. It returns an error if no bundled policy has the name.
func OpenBundled(name string) (*Policy, error) {
	text := BundledText(name)
	if text == "" {
		return nil, fmt.Errorf("no bundled policy is called %s; the bundled policies are %s", shown(name), list(Bundled()))
	}
	p, err := load(name+".yaml", []byte(text), Files{}, untested)
	if err != nil {
		// The text is part of the program: it can only be broken in the source.
		panic("policies: " + err.Error())
	}
	p.bundled = name
	return p, nil
}

// testsMark begins the tests of a bundled policy, which are at its end.
const testsMark = "\ntests:\n"

// untested returns the top node of a bundled policy without its tests. For the default
// policy this is defaultTree, because most starts of the program need it.
func untested(d *decoder, text []byte) *yaml.Node {
	if d.File == DefaultName+".yaml" {
		return defaultTree
	}
	text, _, _ = bytes.Cut(text, []byte(testsMark))
	return d.root(text)
}

// Tests returns the results of the tests in the policy, in their order. The tests of a
// bundled policy are run at each call.
func (p *Policy) Tests() []TestResult {
	if p.bundled == "" {
		return slices.Clone(p.tests)
	}
	whole, err := Parse(p.bundled+".yaml", []byte(BundledText(p.bundled)))
	if err != nil {
		panic("policies: " + err.Error()) // as in OpenBundled
	}
	return whole.tests
}

// Default returns the bundled policy that applies if no policy is given: any command in a
// box without network. It parses the text anew at each call.
func Default() *Policy {
	p, err := OpenBundled(DefaultName)
	if err != nil {
		panic("policies: " + err.Error())
	}
	return p
}
