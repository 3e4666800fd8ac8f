package policies_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/policies"
	"go.yaml.in/yaml/v3"
)

// Every key of a policy changes the policy: without the key it is another policy, or not a
// policy. A decoder that reads a key and drops its value passes all other tests.
func TestEveryKeyIsKept(t *testing.T) {
	// Each limit has a test of its own, and a test of the policy decides nothing.
	apart := regexp.MustCompile(`^profiles\.a\.limits|^tests\[\d\]\.`)
	alike := []string{ // keys whose values are the defaults
		"defaults.no_approver", // has only one value
		"profiles.c.net",       // the mode none, written out
		"tenants.ci.rules",     // names files, which a policy that is only a text cannot name
	}
	doc := document(t, []byte(everything))
	laidOut := func() (*policies.Policy, error) {
		text, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		return policies.Parse("p.yaml", text)
	}
	p, err := laidOut()
	if err != nil {
		t.Fatal(err)
	}
	whole := said(p)
	if p, err = policies.Parse("p.yaml", []byte(everything)); err != nil || said(p) != whole {
		t.Fatalf("a policy that is only laid out in another way is another one: %v", err)
	}
	var out func(n *yaml.Node, at string)
	out = func(n *yaml.Node, at string) {
		if n.Kind == yaml.SequenceNode {
			for i, e := range n.Content {
				out(e, at+"["+strconv.Itoa(i)+"]")
			}
			return
		}
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			name := strings.TrimPrefix(at+"."+n.Content[i].Value, ".")
			all := n.Content
			n.Content = slices.Delete(slices.Clone(all), i, i+2)
			p, err := laidOut()
			n.Content = all
			same := err == nil && said(p) == whole
			if !apart.MatchString(name) && same != slices.Contains(alike, name) {
				t.Errorf("that the policy is the same without %s: got %v, want %v", name, same, !same)
			}
			out(n.Content[i+1], name)
		}
	}
	out(doc.Content[0], "")
}

// said returns everything that a policy contains, except the places in its file and the
// parts of its conditions' programs that belong to the language.
func said(p *policies.Policy) string {
	var b strings.Builder
	seen := make(map[uintptr]bool)
	var put func(v reflect.Value)
	put = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() || seen[v.Pointer()] || strings.HasPrefix(v.Type().Elem().PkgPath(), "google.golang.org/protobuf/") {
				b.WriteString("-")
				return
			}
			seen[v.Pointer()] = true
			put(v.Elem())
		case reflect.Interface:
			if !v.IsNil() {
				put(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if slices.Contains([]string{"Line", "Column", "Col", "Offset", "hash"}, f.Name) {
					continue
				}
				fmt.Fprintf(&b, "%s:", f.Name)
				put(v.Field(i))
				b.WriteString(" ")
			}
		case reflect.Slice, reflect.Array:
			fmt.Fprintf(&b, "[%d", v.Len())
			for i := range v.Len() {
				b.WriteString(" ")
				put(v.Index(i))
			}
			b.WriteString("]")
		case reflect.Map:
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			for _, k := range keys {
				fmt.Fprintf(&b, "{%v ", k)
				put(v.MapIndex(k))
				b.WriteString("}")
			}
		case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		default:
			fmt.Fprintf(&b, "%v", v)
		}
	}
	put(reflect.ValueOf(p))
	return b.String()
}
