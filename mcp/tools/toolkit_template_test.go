package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// TestTemplateTools checks the texts and the structured results of the tools for templates.
func TestTemplateTools(t *testing.T) {
	server, session := toolkitServer(t)
	var b strings.Builder
	for _, c := range []struct{ tool, args string }{
		{listTemplates, `{}`},
		{listTemplates, `{"category":"makefile"}`},
		{listTemplates, `{"toolchain":"rust"}`},
		{listTemplates, `{"toolchain":"cobol"}`},
		{searchTemplates, `{"query":"makefile"}`},
		{searchTemplates, `{"query":"dockerfile"}`},
		{validateTemplate, `{"resource_uri":"template://makefile/rust/cli","parameters":{"project_name":"my-project","has_tests":true}}`},
		{validateTemplate, `{"resource_uri":"template://makefile/rust/cli","parameters":{"project_name":"my project","has_tests":"yes","x":{}}}`},
		{generateTemplate, `{"resource_uri":"template://gitignore/go/cli","parameters":{"project_name":"my-tool","env_files":false}}`},
		{scaffoldProject, `{"toolchain":"python-uv","templates":["makefile","template://agents/any/default"],"parameters":{"project_name":"my-tool","has_tests":false}}`},
	} {
		r, err := server.Call(t.Context(), session, c.tool, []byte(c.args))
		if err != nil || r.IsError {
			t.Fatalf("%s %s: %v, %v", c.tool, c.args, r, err)
		}
		enough(t, c.tool, r)
		structured, err := json.MarshalIndent(r.Structured, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "> %s %s\n", c.tool, c.args)
		for _, part := range r.Content {
			b.WriteString(part.Text + "\n")
		}
		// the structure of scaffold_project repeats the texts, and that of {} is too long
		if c.tool != scaffoldProject && c.args != "{}" {
			fmt.Fprintf(&b, "%s\n", structured)
		}
		b.WriteByte('\n')
	}
	golden.Equal(t, "templates.golden", b.String())
}

// Each kind of bad input has an error that says what was wrong.
func TestBadTemplates(t *testing.T) {
	server, session := toolkitServer(t)
	quoted := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	const makefile = `"resource_uri":"template://makefile/rust/cli"`
	for _, tt := range []struct {
		tool, args string
		kind       wire.Kind
		reason     string
	}{
		{generateTemplate, `{"resource_uri":"template://makefile/rust/gui","parameters":{}}`, wire.TemplateNotFound, "template_not_found"},
		{validateTemplate, `{"resource_uri":"template://agents/rust/default","parameters":{}}`, wire.TemplateNotFound, "template_not_found"},
		{scaffoldProject, `{"toolchain":"rust","templates":["makefile","nothing"],"parameters":{"project_name":"x"}}`, wire.TemplateNotFound, "template_not_found"},
		{generateTemplate, `{"resource_uri":"template://../../etc/passwd","parameters":{}}`, wire.TemplateURI, "invalid_template_uri"},
		{generateTemplate, `{"resource_uri":"template://makefile/rust/cli/../x","parameters":{}}`, wire.TemplateURI, "invalid_template_uri"},
		{generateTemplate, `{"resource_uri":"template://Makefile/rust/cli","parameters":{}}`, wire.TemplateURI, "invalid_template_uri"},
		{generateTemplate, `{"resource_uri":"template://makefile//cli","parameters":{}}`, wire.TemplateURI, "invalid_template_uri"},
		{validateTemplate, `{"resource_uri":"template://makefile/rust/cli\u0000","parameters":{}}`, wire.TemplateURI, "invalid_template_uri"},
		{validateTemplate, `{"resource_uri":` + quoted("template://"+strings.Repeat("a", 10_000)) + `,"parameters":{}}`, wire.TemplateURI, "invalid_template_uri"},
		{scaffoldProject, `{"toolchain":"rust","templates":["template://makefile/rust"],"parameters":{"project_name":"x"}}`, wire.TemplateURI, "invalid_template_uri"},
		{generateTemplate, `{` + makefile + `,"parameters":{}}`, wire.TemplateParameter, "parameter_validation"},
		{generateTemplate, `{` + makefile + `,"parameters":{"project_name":"$(x)"}}`, wire.TemplateParameter, "parameter_validation"},
		{generateTemplate, `{` + makefile + `,"parameters":{"project_name":` + deep + `}}`, wire.TemplateParameter, "parameter_validation"},
		{generateTemplate, `{` + makefile + `,"parameters":{"project_name":` + quoted(strings.Repeat("a", 1<<20)) + `}}`, wire.TemplateParameter, "parameter_validation"},
		{scaffoldProject, `{"toolchain":"cobol","templates":["makefile"],"parameters":{"project_name":"x"}}`, wire.TemplateParameter, "parameter_validation"},
		{scaffoldProject, `{"toolchain":"rust","templates":[]}`, wire.TemplateParameter, "parameter_validation"},
		{searchTemplates, `{"query":""}`, wire.TemplateParameter, "parameter_validation"},
	} {
		r, err := server.Call(t.Context(), session, tt.tool, []byte(tt.args))
		bad, ok := errors.AsType[*wire.Error](err)
		if !ok {
			t.Errorf("%s %.100s: got %v, %v", tt.tool, tt.args, r, err)
			continue
		}
		if data := string(bad.RawData()); bad.Kind != tt.kind || !strings.Contains(data, `"reason":"`+tt.reason+`"`) || len(bad.Text) > 1000 {
			t.Errorf("%s %.100s: got the kind %d, %s: %s", tt.tool, tt.args, bad.Kind, data, bad.Text)
		}
	}
	// Missing arguments, arguments of a wrong type, and arguments that are too deep are
	// refused as for every other tool.
	for args, want := range map[string]string{
		`{` + makefile + `}`:                  `argument "parameters" is missing`,
		`{` + makefile + `,"parameters":"x"}`: `argument "parameters" is the string "x"; it must be an object`,
		`{"resource_uri":7,"parameters":{}}`:  `argument "resource_uri" is the number 7; it must be a string`,
		`{` + makefile + `,"parameters":{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}}`: "the arguments are not JSON",
	} {
		if r, err := server.Call(t.Context(), session, generateTemplate, []byte(args)); err != nil || !r.IsError || !strings.Contains(words(r), want) {
			t.Errorf("%.100s: got %v, %v, want %s", args, r, err, want)
		}
	}
}

// The codes in the legacy era are the published ones. The modern era has one code, with a
// reason (C8, C9).
func TestTemplateCodes(t *testing.T) {
	for kind, want := range map[wire.Kind]int64{wire.TemplateNotFound: -32000, wire.TemplateURI: -32001, wire.TemplateParameter: -32002, wire.RateLimited: -32003} {
		if got := kind.Code(wire.Legacy); got != want {
			t.Errorf("kind %d: got %d in the legacy era, want %d", kind, got, want)
		}
		if got := kind.Code(wire.Modern); kind != wire.RateLimited && got != -32602 || got >= -32019 && got <= -32000 {
			t.Errorf("kind %d: got %d in the modern era", kind, got)
		}
	}
}

// toolkitServer returns a server with the toolkit. Its other tools have no backends.
func toolkitServer(t *testing.T) (*mcp.Server, *mcp.Session) {
	t.Helper()
	server, err := mcp.New(mcp.Config{Gate: allowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	Add(server, Backends{Toolkit: true})
	session, err := server.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return server, session
}

// A server has the tools of the toolkit only if the toolkit is on. Each is read-only and
// also a method, and its name is in the list.
func TestToolkitNames(t *testing.T) {
	all := ToolkitNames()
	if slices.Sort(all); len(slices.Compact(slices.Clone(all))) != 14 {
		t.Errorf("got %q, want 14 names", all)
	}
	of := toolkitTools(t)
	if len(of) == 0 {
		t.Fatal("the toolkit adds nothing")
	}
	server, _ := toolkitServer(t)
	size := 0
	for _, tool := range server.Tools() {
		if !slices.Contains(of, tool.Name) {
			continue
		}
		if !slices.Contains(all, tool.Name) || !tool.ReadOnly || !tool.Method || tool.Title == "" || tool.Description == "" {
			t.Errorf("%s is not a tool of the toolkit: %+v", tool.Name, tool.Tool)
		}
		size += len(tool.InputSchema)
	}
	t.Logf("%d tools with %d characters of input schemas", len(of), size)
	if size > 9_000 {
		t.Errorf("the input schemas have %d characters, want at most 9,000", size)
	}
}
