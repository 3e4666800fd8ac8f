package history

import (
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

const hash = "0123456789012345678901234567890123456789"

func parse(text string) (all []Commit, err error) {
	err = Parse(strings.NewReader(text), func(c Commit) bool { all = append(all, c); return true })
	return all, err
}

func TestParse(t *testing.T) {
	head := "commit " + hash + "\x001700000000\x00a@b\x00A\x00"
	c := Commit{Hash: hash, Time: time.Unix(1700000000, 0).UTC(), Email: "a@b", Name: "A"}
	with := func(files ...Stat) Commit { c := c; c.Files = files; return c }
	for _, x := range []struct {
		name, text string
		want       []Commit
		fails      bool
	}{
		{"nothing", "", nil, false},
		{"no files", head + head, []Commit{c, c}, false},
		{"a file", head + "\n1\t2\tx\x00", []Commit{with(Stat{Path: "x", Added: 1, Deleted: 2})}, false},
		{"binary", head + "\n-\t-\tx\x00", []Commit{with(Stat{Path: "x", Binary: true})}, false},
		{"renamed", head + "\n1\t2\t\x00old\x00new\x003\t4\ty\x00", []Commit{with(Stat{Path: "new", Was: "old", Added: 1, Deleted: 2}, Stat{Path: "y", Added: 3, Deleted: 4})}, false},
		{
			"paths like entries", head + "\n1\t2\t\x00commit " + hash + "\x005\t6\tz\x00" + head,
			[]Commit{with(Stat{Path: "5\t6\tz", Was: "commit " + hash, Added: 1, Deleted: 2}), c},
			false,
		},
		{"path with tab and newline", head + "\n1\t2\ta\t\nb\x00", []Commit{with(Stat{Path: "a\t\nb", Added: 1, Deleted: 2})}, false},
		{"not a header", "hello\x00", nil, true},
		{"short hash", "commit 0123\x001\x00a\x00b\x00", nil, true},
		{"header cut off", "commit " + hash + "\x001\x00a", nil, true},
		{"no time", "commit " + hash + "\x00x\x00a\x00b\x00", nil, true},
		{"time before 1970", "commit " + hash + "\x00-1\x00a\x00b\x00", nil, true},
		{"rename cut off", head + "\n1\t2\t\x00old\x00", nil, true},
		{"file cut off", head + "\n1\t2\told", nil, true},
		{"no number", head + "\n1x\t2\told\x00", nil, true},
		{"huge number", head + "\n99999999999\t2\told\x00", nil, true},
		{"one tab", head + "\n1 2\told\x00", nil, true},
		{"long path", head + "\n1\t2\t" + strings.Repeat("x", maxRecord) + "\x00", nil, true},
	} {
		got, err := parse(x.text)
		if (err != nil) != x.fails || !x.fails && !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: got %+v, %v, want %+v, error %v", x.name, got, err, x.want, x.fails)
		}
	}
	late, err := parse("commit " + hash + "\x0018446744073709551\x00a\x00b\x00")
	if err != nil || late[0].Time.Year() != 9999 {
		t.Errorf("got %v, %v, want the last year that JSON can have", late, err)
	}
}

func TestParseStops(t *testing.T) {
	n := 0
	head := "commit " + hash + "\x001\x00a\x00b\x00"
	err := Parse(strings.NewReader(head+head+head), func(Commit) bool { n++; return n < 2 })
	if err != nil || n != 2 {
		t.Errorf("read %d commits, %v, want 2", n, err)
	}
}

// A log that is longer than the limits ends with an error, and does not use up the memory.
func TestParseIsBounded(t *testing.T) {
	head := "commit " + hash + "\x001\x00a\x00b\x00\n"
	many := io.MultiReader(strings.NewReader(head), &endless{text: "1\t1\tx\x00"})
	if err := Parse(many, func(Commit) bool { return true }); err == nil {
		t.Error("no error for a commit of endless files")
	}
	in := newRecords(&endless{text: "x\x00"}, 1000)
	for range 500 {
		if _, err := in.next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.next(); err == nil {
		t.Error("no error behind the limit of bytes")
	}
}

// endless repeats a text without end.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at%len(e.text)]
		e.at++
	}
	return len(p), nil
}

func FuzzParse(f *testing.F) {
	f.Add("commit " + hash + "\x001\x00a\x00b\x00\n1\t2\t\x00old\x00new\x00-\t-\tx\x00")
	f.Add("commit " + hash + "\x00-1\x00")
	f.Add("\x00\x00")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Sum(strings.NewReader(text))
		if err == nil {
			for _, file := range h.Files {
				if !(file.Score > 0 && file.Score <= 1) || file.Commits < 1 || len(file.Authors) > file.Commits || file.Last.Before(file.First) {
					t.Errorf("got %+v of %q", file, text)
				}
			}
		}
	})
}

func FuzzParsePatch(f *testing.F) {
	f.Add("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +3 @@ f\n-a\n-b\n+c\n\\ No newline at end of file\n")
	f.Add("+++ \"b/\\303\\244\\n\"\n@@ -0,0 +1 @@\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parsePatch(strings.NewReader(text))
		for path, ranges := range all {
			for _, r := range ranges {
				if err == nil && (path == "" || r.First < 0 || r.Last < r.First-1) {
					t.Errorf("%q has %+v, of %q", path, r, text)
				}
			}
		}
	})
}
