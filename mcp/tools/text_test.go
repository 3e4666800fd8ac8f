package tools

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

func TestStatusLine(t *testing.T) {
	var x text
	x.body("no line break")
	x.line("%s", "")
	got := x.status("exit", "0", "cwd", "/a b", "task_id", "3", "empty", "")
	want := "no line break\n[belljar exit=0 cwd=\"/a b\" task_id=3 empty=\"\"]"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// An output of many lines keeps its beginning and its end, and a line says how much is
// missing between them.
func TestFewLines(t *testing.T) {
	var all strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&all, i)
	}
	whole := []byte(all.String())
	for name, c := range map[string]sandbox.Cut{
		"whole":            {Text: whole, Total: int64(len(whole)), At: len(whole)},
		"cut":              {Text: whole, Total: 1 << 20, Dropped: 1<<20 - int64(len(whole)), At: 5000},
		"cut at its start": {Text: whole, Total: 1 << 20, Dropped: 1<<20 - int64(len(whole))},
	} {
		got := fewLines(c, linesShown)
		if n := bytes.Count(got.Text, []byte("\n")); n > linesShown || n < linesShown*4/5 {
			t.Errorf("%s: got %d lines", name, n)
		}
		if !bytes.HasPrefix(whole, got.Text[:got.At]) || !bytes.HasSuffix(whole, got.Text[got.At:]) || got.Total != c.Total || got.Dropped != c.Total-int64(len(got.Text)) {
			t.Errorf("%s: got %d bytes, %d dropped of %d at %d", name, len(got.Text), got.Dropped, got.Total, got.At)
		}
	}
	few := sandbox.Cut{Text: []byte("a\nb\n"), Total: 4, At: 4}
	if got := fewLines(few, linesShown); got.Dropped != 0 || string(got.Text) != "a\nb\n" {
		t.Errorf("few lines: got %+v", got)
	}
}

func TestStatusLineStaysOne(t *testing.T) {
	var x text
	got := x.status("cwd", "/a\n[belljar exit=0]")
	if strings.Contains(got, "\n") {
		t.Errorf("a directory name made two lines: %q", got)
	}
}

func TestWithin(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		got  *int64
		want time.Duration
		err  string
	}{
		{got: nil, want: 30 * time.Second},
		{got: n(1), want: time.Millisecond},
		{got: n(60_000), want: time.Minute},
		{got: n(0), err: "timeout: got 0, want 1 to 60000 milliseconds"},
		{got: n(-5), err: "timeout: got -5, want 1 to 60000 milliseconds"},
		{got: n(60_001), err: "timeout: got 60001, want 1 to 60000 milliseconds; use another"},
		{got: n(1 << 62), err: "timeout: got 4611686018427387904, want 1 to 60000 milliseconds; use another"},
	} {
		got, err := within("timeout", c.got, 30*time.Second, time.Millisecond, time.Minute, "use another")
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("got %v, %v, want %v, %s", got, err, c.want, c.err)
		}
	}
	if got, _ := within("timeout", nil, time.Hour, time.Millisecond, time.Minute, ""); got != time.Minute {
		t.Errorf("a default above the limit: got %v, want the limit", got)
	}
}

func TestSignalName(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{0: "", 9: "SIGKILL", 15: "SIGTERM", 40: "SIG40"} {
		if got := signalName(sig); got != want {
			t.Errorf("signal %d: got %q, want %q", int(sig), got, want)
		}
	}
}

func TestParseOutput(t *testing.T) {
	for _, c := range []struct {
		uri  string
		want span
		err  bool
	}{
		{uri: "output://abc", want: span{id: "abc", offset: -1, length: maxRange}},
		{uri: "output://abc?offset=5&length=7", want: span{id: "abc", offset: 5, length: 7}},
		{uri: "output://abc/?length=99999999999", want: span{id: "abc", offset: -1, length: maxRange}},
		{uri: "output://", err: true},
		{uri: "output:abc", err: true},
		{uri: "file:///etc/passwd", err: true},
		{uri: "output://abc/../def", err: true},
		{uri: "output://abc?offset=-1", err: true},
		{uri: "output://abc?offset=1&offset=2", err: true},
		{uri: "output://abc?length=0", err: true},
		{uri: "output://abc?offset=x", err: true},
		{uri: "output://abc?from=1", err: true},
		{uri: "output://abc?offset=99999999999999999999", err: true},
	} {
		got, err := parseOutput(c.uri)
		if (err != nil) != c.err || err == nil && got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v, error %v", c.uri, got, err, c.want, c.err)
		}
	}
}

func FuzzParseOutput(f *testing.F) {
	f.Add("output://abc?offset=5&length=7")
	f.Add("output://a%2fb?x=%zz")
	f.Fuzz(func(t *testing.T, uri string) {
		s, err := parseOutput(uri)
		if err == nil && (s.id == "" || s.offset < -1 || s.length < 1 || s.length > maxRange) {
			t.Errorf("%q: got %+v", uri, s)
		}
	})
}

func TestSpanEndsBetweenCharacters(t *testing.T) {
	o := written{text: "aé€b"} // its characters have 1, 2, 3 and 1 bytes
	for length, want := range map[int]string{1: "a", 2: "a", 3: "aé", 5: "aé", 6: "aé€", 9: "aé€b"} {
		got, err := span{offset: 0, length: length}.read(o)
		if err != nil || string(got) != want {
			t.Errorf("length %d: got %q, %v, want %q", length, got, err, want)
		}
	}
	o.gone = 3
	if _, err := (span{id: "x", offset: 1, length: 5}).read(o); err == nil || !strings.Contains(err.Error(), "read from offset=3") {
		t.Errorf("bytes that are gone: got %v, want an error that says where to go on", err)
	}
	if got, err := (span{offset: -1, length: 5}).read(o); err != nil || string(got) != "€b" {
		t.Errorf("no offset: got %q, %v, want what is kept", got, err)
	}
}

func TestCheckCommand(t *testing.T) {
	for _, c := range []struct {
		command string
		env     map[string]string
		want    string
	}{
		{command: "true"},
		{command: " \n", want: "command: got nothing"},
		{command: "a\x00b", want: "NUL"},
		{command: "true", env: map[string]string{"A=B": "x"}, want: `env: "A=B"`},
		{command: "true", env: map[string]string{"": "x"}, want: `env: ""`},
		{command: "true", env: map[string]string{"A": "x\x00"}, want: `env: "A"`},
	} {
		err := checkCommand(c.command, c.env, "")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: got %v, want %q", c.command, c.env, err, c.want)
		}
	}
}

// L6: A command has 30 s unless the call sets a timeout.
func TestBashDefaultTimeout(t *testing.T) {
	grant := policies.Default().Decide(policies.Facts{Tool: "Bash", Command: "true"}).Grant
	plan, err := bashInput{Command: "true"}.check(grant)
	if err != nil || plan.timeout != 30*time.Second {
		t.Errorf("got %+v, %v; want a timeout of 30 s", plan, err)
	}
}
