package sandbox

import (
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/sandbox/boxinit"
)

func TestParseReply(t *testing.T) {
	for text, want := range map[string]string{
		`{"Op":"ended","ID":3,"Code":7,"Dir":"/tmp"}`:            "",
		`{"Op":"ended","Dir":"tmp"}`:                             "not absolute",
		`{"Op":"ended","Dir":"/tmp\u0000"}`:                      "not absolute",
		`{"Op":"ended","CPU":-1}`:                                "below zero",
		`{"Op":7}`:                                               "cannot unmarshal",
		`{"Op":"ended"`:                                          "unexpected end",
		`{"Op":"` + strings.Repeat("x", boxinit.MaxReply) + `"}`: "over 16384 bytes",
	} {
		r, err := parseReply([]byte(text))
		switch {
		case want == "" && (err != nil || r.ID != 3 || r.Code != 7 || r.Dir != "/tmp"):
			t.Errorf("%s gives %+v, %v", text, r, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.40s gives %v, want an error with %q", text, err, want)
		}
	}
}

// A lying init is taken at its word for nothing that could leave its box.
func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"Op":"ended","ID":3,"Code":7,"Signal":9,"CPU":1,"RSS":2,"Dir":"/tmp","OOM":true}`))
	f.Add([]byte(`{"Op":"failed","Error":"x","Errno":2}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseReply(text)
		if err != nil {
			if r != (boxinit.Reply{}) {
				t.Errorf("an error comes with %+v", r)
			}
			return
		}
		if len(text) > boxinit.MaxReply || r.Dir != "" && !filepath.IsAbs(r.Dir) || r.CPU < 0 || r.RSS < 0 {
			t.Errorf("%q was taken as %+v", text, r)
		}
	})
}
