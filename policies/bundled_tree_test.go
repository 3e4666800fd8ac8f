package policies

import (
	"bytes"
	"fmt"
	"go/format"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/golden"
)

// The default policy is read from YAML here, and not at each start: bundled_tree.go
// contains its nodes. Loading the policy must not change them.
func TestDefaultTreeIsTheDefaultPolicy(t *testing.T) {
	text, _, _ := bytes.Cut([]byte(BundledText(DefaultName)), []byte(testsMark))
	d := newDecoder(DefaultName, text)
	root := d.root(text)
	if root == nil || len(d.Faults) > 0 {
		t.Fatalf("got the faults %v", d.Faults)
	}
	code := treeCode(t, root)
	golden.File(t, "bundled_tree.go", code)
	if golden.Update() {
		return // the program that runs has the old nodes
	}
	Default()
	if treeCode(t, defaultTree) != code {
		t.Error("the nodes are not those of bundled_tree.go once the policy is loaded")
	}
}

// treeCode returns a Go file that contains a node and all nodes below it.
func treeCode(t *testing.T, root *yaml.Node) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("// Code generated from default.yaml by go test ./policies -run TestDefaultTreeIsTheDefaultPolicy -update; DO NOT EDIT.\n\n" +
		"package policies\n\nimport \"go.yaml.in/yaml/v3\"\n\n" +
		"// defaultTree is the default policy without its tests, as the decoder reads it.\n" +
		"var defaultTree = &yaml.Node")
	writeNode(&b, root)
	code, err := format.Source([]byte(b.String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return string(code)
}

// writeNode writes a node as a composite literal, without its comments.
func writeNode(b *strings.Builder, n *yaml.Node) {
	fmt.Fprintf(b, "{Kind: %d, Style: %d, Tag: %q, Value: %q, Line: %d, Column: %d", n.Kind, n.Style, n.Tag, n.Value, n.Line, n.Column)
	if len(n.Content) > 0 {
		b.WriteString(", Content: []*yaml.Node{\n")
		for _, c := range n.Content {
			writeNode(b, c)
			b.WriteString(",\n")
		}
		b.WriteString("}")
	}
	b.WriteString("}")
}

// The bundled policies allow the same tools that touch only the session's own things.
// default.yaml lists them, and -update writes its list into the others, without the tools that
// another rule of the policy names. A tool whose calls have parts needs rules about these.
func TestBundledPoliciesHaveTheSameSessionTools(t *testing.T) {
	list := regexp.MustCompile(`(id: session-tools\n    match: {tool: \[)(.*)\]`)
	found := list.FindStringSubmatch(BundledText(DefaultName))
	if found == nil {
		t.Fatal("the default policy has no list of session tools")
	}
	all := strings.Split(found[2], ", ")
	for _, row := range toolTable {
		if (len(row.parts) > 0 || row.name == ActTool) && slices.Contains(all, row.name) {
			t.Errorf("calls of %s have a %s: give the tool a rule of its own in each bundled policy", row.name, strings.Join(row.parts, " and a "))
		}
	}
	for _, name := range Bundled() {
		if !list.MatchString(BundledText(name)) {
			t.Errorf("%s has no list of session tools", name)
		}
		others, _, _ := strings.Cut(list.ReplaceAllString(BundledText(name), ""), testsMark)
		own := slices.DeleteFunc(slices.Clone(all), func(tool string) bool { return regexp.MustCompile(`tool: .*\b` + tool + `\b`).MatchString(others) })
		golden.File(t, name+".yaml", list.ReplaceAllString(BundledText(name), "${1}"+strings.Join(own, ", ")+"]"))
	}
}
