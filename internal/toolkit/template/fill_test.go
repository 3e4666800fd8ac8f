package template

import (
	"strings"
	"testing"
)

// An action or a value that the texts do not use is refused.
func TestFillRefuses(t *testing.T) {
	params := map[string]any{"a": "text", "b": "other", "yes": true, "nothing": nil}
	for text, want := range map[string]string{
		`{{range .a}}{{end}}`:            "not supported",
		`{{template "x"}}`:               "not supported",
		`{{define "x"}}x{{end}}y`:        "other templates",
		`{{$x := .a}}`:                   "not supported",
		`{{.a | slice 1}}`:               "not supported",
		`{{.a .b 1}}`:                    "not supported",
		`{{"x"}}`:                        "not a parameter",
		`{{.a.b}}`:                       "not a parameter",
		`{{.missing}}`:                   "missing",
		`{{.nothing}}`:                   "neither",
		`{{.}}`:                          "not a parameter",
		`{{if .missing}}x{{end}}`:        "missing",
		`{{slice .yes 1}}`:               "cannot be applied",
		`{{slice .a 9}}`:                 "cannot be applied",
		`{{slice .a .b}}`:                "cannot be applied",
		`{{len .a}}`:                     "not defined",
		`{{with .a}}{{range .}}{{end}}x`: "unexpected EOF",
	} {
		if got, err := fill("t", text, params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want the error %q", text, got, err, want)
		}
	}
	got, err := fill("t", `{{if .yes}}{{with .a}}{{.}}{{end}}{{slice .b 2}}{{else}}no{{end}}`, params)
	if err != nil || got != "texther" {
		t.Errorf("got %q, %v", got, err)
	}
}
