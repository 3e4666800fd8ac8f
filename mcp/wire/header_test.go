package wire

import (
	"fmt"
	"strings"
	"testing"
)

func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1": "us-west1", "a b": "a b", "": "", "a\tb": "a\tb",
		"Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"a\r\nX-Evil: 1": "=?base64?YQ0KWC1FdmlsOiAx?=",
	} {
		got := EncodeHeader(text)
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if back, ok := DecodeHeader(got); !ok || back != text {
			t.Errorf("%q: decoded %q, %t", got, back, ok)
		}
	}
	for _, value := range []string{"=?base64?%%%?=", "=?base64?YQ?=", "=?base64?YR==?=", "=?base64?/w==?="} {
		if text, ok := DecodeHeader(value); ok {
			t.Errorf("%q stands for %q", value, text)
		}
	}
	for _, value := range []string{"=?base64?", "=?base64?=", "=?base64?YQ==", "YQ==?=", "=?utf-8?B?YQ==?="} {
		if text, ok := DecodeHeader(value); !ok || text != value {
			t.Errorf("%q stands for %q, %t; want itself", value, text, ok)
		}
	}
}

// TestHeaderSays checks that a header matches each form of the number in an argument, and
// no other value.
func TestHeaderSays(t *testing.T) {
	for _, tt := range []struct {
		value, argument string
		want            bool
	}{
		{"eu", `"eu"`, true},
		{"eu", `"\u0065u"`, true},
		{"us", `"eu"`, false},
		{"", `""`, true},
		{"42", `42`, true},
		{"42.0", `42`, true},
		{"4.2e1", `42`, true},
		{"42", `42.0`, true},
		{"43", `42`, false},
		{"1e400", `42`, false},
		{"1e400", `1e400`, false},
		{"-1e400", `42`, false},
		{"NaN", `42`, false},
		{"+42", `42`, false},
		{"0x2ap0", `42`, false},
		{"9007199254740993", `9007199254740992`, false},
		{"9007199254740991", `9007199254740991`, true},
		{"42", `"42"`, true},
		{"42.0", `"42"`, false},
		{strings.Repeat("x", 8<<10), `"` + strings.Repeat("x", 8<<10) + `"`, true},
		{strings.Repeat("x", 8<<10+1), `"` + strings.Repeat("x", 8<<10+1) + `"`, true},
		{"1.5", `1.5`, false},
		{"true", `true`, true},
		{"1", `true`, false},
		{"null", `null`, false},
		{"", ``, false},
		{"{}", `{}`, false},
	} {
		if got := HeaderSays(tt.value, []byte(tt.argument)); got != tt.want {
			t.Errorf("%.40q says %.40s: %t", tt.value, tt.argument, got)
		}
	}
}

// TestRepeats checks that only properties name headers, down to a bounded depth, and only
// headers with a valid name.
func TestRepeats(t *testing.T) {
	deep := `{"x-mcp-header":"Deepest"}`
	for range deepestHeader {
		deep = `{"properties":{"in":` + deep + `}}`
	}
	schema := `{"properties":{"a":{"x-mcp-header":"A"},"b":{"x-mcp-header":"a b"},"c":{"x-mcp-header":7},"d":true,
		"in":{"properties":{"e":{"x-mcp-header":"E"}}},"f":{"items":{"x-mcp-header":"F"}},"g":{"x-mcp-header":"` + strings.Repeat("g", 200) + `"}}}`
	read := func(schema, arguments string, most int) string {
		var all []string
		ReadRepeats([]byte(schema)).Each([]byte(arguments), func(header string, argument []byte) bool {
			all = append(all, fmt.Sprintf("%s=%s", header, argument))
			return len(all) < most
		})
		return strings.Join(all, " ")
	}
	for _, tt := range []struct {
		schema, arguments string
		most              int
		want              string
	}{
		{schema, `{"a":1,"in":{"e":"x"}}`, 9, "Mcp-Param-A=1 Mcp-Param-E=x"},
		{schema, `{"in":7}`, 9, "Mcp-Param-A= Mcp-Param-E="},
		{schema, ``, 1, "Mcp-Param-A="},
		{`{"properties":{"in":` + schema + `,"z":{"x-mcp-header":"Z"}}}`, ``, 1, "Mcp-Param-A="},
		{deep, `{}`, 9, "Mcp-Param-Deepest="},
		{`{"properties":{"in":` + deep + `}}`, `{}`, 9, ""},
		{`{"properties":[]}`, `{}`, 9, ""},
		{`true`, `{}`, 9, ""},
	} {
		want := strings.ReplaceAll(tt.want, "=x", `="x"`)
		if got := read(tt.schema, tt.arguments, tt.most); got != want {
			t.Errorf("%.80s with %s: got %q, want %q", tt.schema, tt.arguments, got, want)
		}
	}
	// With many properties and large arguments, reading the arguments once for each
	// property would take minutes.
	var wide, arguments strings.Builder
	wide.WriteString(`{"properties":{"x":{"x-mcp-header":"X"}`)
	for i := range 15_000 {
		fmt.Fprintf(&wide, `,"p%d":{"x-mcp-header":"P%d"}`, i, i)
	}
	wide.WriteString("}}")
	arguments.WriteString(`{"x":"a"`)
	for i := range 100_000 {
		fmt.Fprintf(&arguments, `,"o%d":0`, i)
	}
	arguments.WriteString("}")
	if got := strings.Count(read(wide.String(), arguments.String(), 1<<20), "="); got != 15_001 {
		t.Errorf("got %d arguments, want 15,001", got)
	}
}
