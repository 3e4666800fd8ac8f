package policies_test

import (
	"net/netip"
	"strings"
	"testing"

	"belljar.dev/policies"
)

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{
		"files.example":          "files.example",
		"FILES.Example":          "files.example",
		"files.example.":         "files.example",
		"localhost":              "localhost",
		"_dmarc.files.example":   "_dmarc.files.example",
		"xn--bcher-kva.example":  "xn--bcher-kva.example",
		"1.2.3.4":                "1.2.3.4",
		"[::1]":                  "::1",
		"2001:DB8:0::1":          "2001:db8::1",
		"::ffff:127.0.0.1":       "127.0.0.1",
		"[::ffff:7f00:1]":        "127.0.0.1",
		"1.2.3.4.files.example":  "1.2.3.4.files.example",
		"0x7f.files.example":     "0x7f.files.example",
		strings.Repeat("a", 63):  strings.Repeat("a", 63),
		"1234.example":           "1234.example",
		"a." + label(61) + ".b1": "a." + label(61) + ".b1",
	} {
		h, err := policies.ParseHost(in)
		if err != nil || h.String() != want {
			t.Errorf("ParseHost(%q): got %q, %v, want %q", in, h, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "..", "a..b", ".a", "a..", "-a.example", "a-.example", "a.-b",
		"evil.example\x00.files.example", "files.example\n", "files .example", "\tfiles.example", "files.example\x7f",
		"u@files.example", "files.example@evil.example", "u:p@files.example", "files.example:443", "files.example/",
		"files%2eexample", "files.example%00", "https://files.example", "*.files.example", "*",
		"files。example", "files．example", "files｡example", "ｆiles.example", "bücher.example", "\u212aelvin.example", "files.\u0131example", "f\u00adiles.example", "\xff.example",
		"2130706433", "0x7f000001", "0X7F.1", "127.1", "127.0.0.01", "0177.0.0.1", "127.0.0.1.", "256.1.1.1", "1.2.3", "1.2.3.4.5", "files.0x", "files.1",
		"fe80::1%eth0", "[fe80::1%25eth0]", "[1.2.3.4]", "[::1", "::1]", "[files.example]", "[]", "::1::",
		label(64), "a." + label(64) + ".example", strings.Repeat("a.", 127) + "ab",
		"files.example\\", "files;example", "files,example", "'files.example'", "$(id).example",
	} {
		if h, err := policies.ParseHost(in); err == nil || !h.IsZero() {
			t.Errorf("ParseHost(%q): got %q, %v, want an error", in, h, err)
		}
	}
}

// The error names what is wrong with a host.
func TestParseHostErrors(t *testing.T) {
	for in, want := range map[string]string{
		"a..b":            "between dots it must have 1 to 63 characters",
		"-a.example":      "no hyphen first or last",
		label(64):         "between dots it must have 1 to 63 characters",
		"a b.example":     "contains more than letters",
		"bücher.example":  "write other letters in the xn-- form",
		"files.example.7": "its last part is a number",
	} {
		if _, err := policies.ParseHost(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}

// label returns a part of a name with n letters.
func label(n int) string { return strings.Repeat("l", n) }

// A host that is accepted has one form: a name of letters, digits, hyphens and underscores
// that no program takes for an address, or an address.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"files.example.", "A-b_c.d", "1.2.3.4", "[::ffff:1.2.3.4]", "2001:db8::1", "0x7f.1", "127.1", "a\x00.b", "\u212a.b", "[fe80::1%x]", "xn--a.b", "1e3", "0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := policies.ParseHost(s)
		if (err == nil) == h.IsZero() {
			t.Fatalf("%q: got %q and %v", s, h, err)
		}
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("%q: the error contains a control character: %q", s, err)
			}
			return
		}
		again, err := policies.ParseHost(h.String())
		if err != nil || again != h {
			t.Errorf("%q is %q, which is %q, %v", s, h, again, err)
		}
		if (h.Name() == "") != h.Addr().IsValid() {
			t.Errorf("%q is name %q and address %v", s, h.Name(), h.Addr())
		}
		if h.Addr().IsValid() {
			if h.Addr().Zone() != "" || h.Addr().Is4In6() {
				t.Errorf("%q is the address %v", s, h.Addr())
			}
			return
		}
		name := h.Name()
		if len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Errorf("%q is the name %q", s, name)
		}
		for part := range strings.SplitSeq(name, ".") {
			if part == "" || len(part) > 63 {
				t.Errorf("%q has a part %q", s, part)
			}
		}
		if _, err := netip.ParseAddr(name); err == nil {
			t.Errorf("%q is the name %q, an address", s, name)
		}
		// inet_aton(3) also reads up to four numbers with dots, so the last part of a name
		// must not be a number.
		last := name[strings.LastIndexByte(name, '.')+1:]
		if c := last[0]; c >= '0' && c <= '9' && strings.Trim(last, "0123456789") == "" {
			t.Errorf("%q is the name %q, which ends in a number", s, name)
		}
	})
}
