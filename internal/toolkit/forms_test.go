package toolkit

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// forms are all formats, each with a check that the whole result has this format.
var forms = map[string]func(o outcome) bool{
	summary:  structured,
	detailed: structured,
	asJSON:   structured,
	asSARIF: func(o outcome) bool {
		var log struct{ Version string }
		return json.Unmarshal(o.whole, &log) == nil && log.Version == "2.1.0"
	},
	markdown: func(o outcome) bool { return bytes.HasPrefix(o.whole, []byte("# ")) },
	asJUnit: func(o outcome) bool {
		var suites struct {
			XMLName xml.Name `xml:"testsuites"`
		}
		return xml.Unmarshal(o.whole, &suites) == nil
	},
}

// structured reports whether the whole result is the structured result.
func structured(o outcome) bool { return bytes.Equal(o.whole, o.answer.Result) }

// TestEachFormatIsMade checks the four places of each format: Check accepts it, the schema
// names it, the table of docs/toolkit.md contains it, and the whole result has its form. A
// result in SARIF contains findings.
func TestEachFormatIsMade(t *testing.T) {
	dir := sample().with("a/long.go", "package a\n\n"+tangled(12)).with("b/long.go", "package b\n\n"+tangled(12)).in(t)
	page, err := os.ReadFile("../../docs/toolkit.md")
	if err != nil {
		t.Fatal(err)
	}
	for tool, with := range allTools() {
		args := argsOf(tool)
		field, ok := reflect.TypeOf(args).Elem().FieldByName("Format")
		if !ok {
			t.Fatalf("%s: no argument Format", tool)
		}
		named := regexp.MustCompile(`[a-z]+`).FindAllString(field.Tag.Get("jsonschema"), -1)
		row := regexp.MustCompile("(?m)^\\| `" + tool + "` \\| (.*) \\|$").FindStringSubmatch(section(string(page), "## Formats"))
		if row == nil {
			t.Errorf("docs/toolkit.md: the table of formats has no row for %s", tool)
			continue
		}
		for form, made := range forms {
			call := map[string]any{"format": form}
			maps.Copy(call, with)
			text, err := json.Marshal(call)
			if err != nil {
				t.Fatal(err)
			}
			_, err = decode(tool, text)
			takes := err == nil
			if got := slices.Contains(named, form); got != takes {
				t.Errorf("%s: format %s: named in the schema: %t; taken: %t", tool, form, got, takes)
			}
			if got := strings.Contains(row[1], "`"+form+"`"); got != takes {
				t.Errorf("%s: format %s: in the table of docs/toolkit.md: %t; taken: %t", tool, form, got, takes)
			}
			if !takes {
				continue
			}
			o := analyse(t, dir, tool, call, nil)
			switch {
			case o.err != nil:
				t.Errorf("%s as %s: %v", tool, form, o.err)
			case !made(o):
				t.Errorf("%s as %s: the whole result has another form: %.80s", tool, form, o.whole)
			case form == asSARIF && !bytes.Contains(o.whole, []byte(`"ruleId"`)):
				t.Errorf("%s as %s: no finding", tool, form)
			}
		}
	}
}

// section returns the part of a page below a heading.
func section(page, heading string) string {
	_, rest, _ := strings.Cut(page, "\n"+heading+"\n")
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}
