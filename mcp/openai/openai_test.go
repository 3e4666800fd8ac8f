package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/mcp/openai"
)

// TestAdapter checks both directions between functions and tools (G7).
func TestAdapter(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"],"additionalProperties":false}`
	a, err := openai.New([]openai.Tool{
		{Name: "math.add", Description: "adds", InputSchema: json.RawMessage(schema)},
		{Name: "Bash", InputSchema: json.RawMessage(`{"type":"object"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []openai.Function{
		{Name: "Bash", Parameters: json.RawMessage(`{"type":"object"}`)},
		{Name: "math_add", Description: "adds", Parameters: json.RawMessage(schema), Required: []string{"a"}},
	}
	if diff := cmp.Diff(want, a.Functions()); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ name, arguments, tool, want string }{
		{"math_add", `{"a":1}`, "math.add", `{"a":1}`},
		{"Bash", " ", "Bash", `{}`},
		{"math.add", `{}`, "", `call function "math.add": no function has this name`},
		{"Bash", `[1]`, "", `call function Bash: arguments: json: cannot unmarshal array`},
		{"Bash", `null`, "", `call function Bash: arguments: got null, want an object`},
		{"Bash", `{"a":1} x`, "", `call function Bash: arguments: invalid character 'x'`},
	} {
		tool, arguments, err := a.Call(openai.Call{Name: tt.name, Arguments: tt.arguments})
		got := string(arguments)
		if err != nil {
			got = err.Error()
		}
		if tool != tt.tool || !strings.HasPrefix(got, tt.want) {
			t.Errorf("call %s %s: got %q %q, want %q %q", tt.name, tt.arguments, tool, got, tt.tool, tt.want)
		}
	}
	for _, bad := range []openai.Tool{{Name: "x"}, {Name: "x", InputSchema: json.RawMessage(`{"type":"array"}`)}, {InputSchema: json.RawMessage(schema)}} {
		if _, err := openai.New([]openai.Tool{bad}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestFunctions(t *testing.T) {
	const text = `[
		{"name":"bare","description":"d","parameters":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q"]},
		{"type":"function","name":"flat","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"x":1}},
		{"type":"function","function":{"name":"below"}}
	]`
	all, err := openai.ParseFunctions([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		tool, err := f.Tool()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	want := []string{
		`{"name":"bare","description":"d","inputSchema":{"properties":{"n":{"type":"integer"},"q":{"type":"string"}},"required":["q"],"type":"object"}}`,
		`{"name":"flat","inputSchema":{"properties":{"q":{"type":"string"}},"required":["q"],"type":"object","x":1}}`,
		`{"name":"below","inputSchema":{"properties":{},"type":"object"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		`{"type":"web_search"}`:      `read function 1: its type is "web_search", want function`,
		`{"type":"function"}`:        "read function 1: it has no name",
		`{"name":"a","function":{}}`: "read function 1: it has two names",
		`7`:                          "read functions: json: cannot unmarshal number",
		`[{"name":"a"},7]`:           "read function 2: json: cannot unmarshal number",
	} {
		if _, err := openai.ParseFunctions([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for _, tt := range []struct {
		f    openai.Function
		want string
	}{
		{openai.Function{Name: "a.b"}, `convert function "a.b": the name must be 1 to 64 letters, digits, _ or -`},
		{openai.Function{Name: "a", Required: []string{"q"}}, `convert function a: "q" is required, but is not a parameter`},
		{openai.Function{Name: "a", Parameters: json.RawMessage(`{"q":7}`)}, `convert function a: parameters: "q": a parameter is described by an object`},
	} {
		if _, err := tt.f.Tool(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.f, err, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 80)
	tools := []string{"a.b", "a:b", "a_b", "c.d", "e", long, "ä"}
	n, err := openai.NewNames(tools)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tool := range tools {
		name, ok := n.Function(tool)
		back, known := n.Tool(name)
		if !ok || !known || back != tool || len(name) > 64 {
			t.Errorf("%s: function %s, and back %s", tool, name, back)
		}
		got = append(got, name)
	}
	want := []string{"a_b_2e7336", "a_b_6783a3", "a_b", "c_d", "e", strings.Repeat("x", 57) + "_d929cd", "_"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, bad := range [][]string{{""}, {"a", "a"}, make([]string, 1025)} {
		if _, err := openai.NewNames(bad); err == nil {
			t.Errorf("%d names were taken", len(bad))
		}
	}
}

func TestResults(t *testing.T) {
	for _, tt := range []struct {
		text string
		want openai.Output
	}{
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, openai.Output{Success: true, Output: "a\nb"}},
		{`{"content":[{"type":"text","text":"no"}],"isError":true}`, openai.Output{Output: "no"}},
		{`{"content":[],"structuredContent":{"a":1}}`, openai.Output{Success: true, Output: `{"a":1}`}},
		{`{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"resource_link","uri":"output://x","name":"x"},{"type":"resource","resource":{"uri":"a:b","text":"t"}},{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"AAAA"}}]}`, openai.Output{Success: true, Output: "[image image/png, 3 bytes]\n[resource output://x x]\nt\n[resource a:b x/y, 3 bytes]"}},
	} {
		got, err := openai.FromResult([]byte(tt.text))
		if err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
	}
	for _, o := range []openai.Output{{Success: true, Output: "a\nb"}, {Output: ""}} {
		text, err := o.Result()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := openai.FromResult(text); err != nil || back != o {
			t.Errorf("%+v: came back as %+v, %v", o, back, err)
		}
	}
}

func FuzzParseFunctions(f *testing.F) {
	f.Add([]byte(`[{"name":"a","parameters":{"q":{"type":"string"}},"required":["q"]}]`))
	f.Add([]byte(`{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := openai.ParseFunctions(text)
		if err != nil {
			return
		}
		for _, fn := range all {
			tool, err := fn.Tool()
			if err != nil {
				continue
			}
			a, err := openai.New([]openai.Tool{tool})
			if err != nil {
				t.Fatalf("a function became a tool that cannot be one: %+v: %v", tool, err)
			}
			if back := a.Functions()[0]; back.Name != fn.Name {
				t.Fatalf("%q came back as %q", fn.Name, back.Name)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("a.b", "a:b", "a_b")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		n, err := openai.NewNames([]string{a, b, c})
		if err != nil {
			return
		}
		for _, tool := range []string{a, b, c} {
			name, ok := n.Function(tool)
			back, known := n.Tool(name)
			if !ok || !known || back != tool || name == "" || len(name) > 64 {
				t.Fatalf("%q became %q, which is %q", tool, name, back)
			}
		}
	})
}

func FuzzFromResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := openai.FromResult(text)
		if err != nil {
			return
		}
		if _, err := o.Result(); err != nil {
			t.Fatal(err)
		}
	})
}

func ExampleAdapter() {
	a, err := openai.New([]openai.Tool{{Name: "math.add", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	tool, arguments, err := a.Call(openai.Call{Name: a.Functions()[0].Name, Arguments: `{"a":1}`})
	fmt.Println(tool, string(arguments), err)
	// Output: math.add {"a":1} <nil>
}
