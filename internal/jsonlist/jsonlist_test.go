package jsonlist

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// read returns the elements of a list, with commas between them.
func read(r io.Reader, most Bounds) (string, error) {
	var all []string
	err := Each(r, most, func(one json.RawMessage) error {
		all = append(all, string(one))
		return nil
	})
	return strings.Join(all, ","), err
}

// Each reads all elements of a list, or returns the error of the first fault, in whatever
// pieces the bytes arrive.
func TestEach(t *testing.T) {
	for text, tt := range map[string]struct{ want, fault string }{
		`[]`:                                    {"", ""},
		` [1, {"a":[2]} ,"x"] `:                 {`1,{"a":[2]},"x"`, ""},
		`[1,2,3,4,5]`:                           {"1,2,3,4,5", ""},
		`[1,2,3,4,5,6]`:                         {"1,2,3,4,5", "too many elements"},
		`[1,"` + long(90) + `"]`:                {"1", "element 2 of the list is too large"},
		`[1,` + strings.Repeat(" ", 900) + `2]`: {"1", "too large"},
		`{}`:                                    {"", "not a JSON list"},
		`null`:                                  {"", ""},
		``:                                      {"", "not a JSON list"},
		`[1,2`:                                  {"1,2", "end of a list"},
		`[1,{x}`:                                {"1", "element 2 of a list"},
		`[1 2]`:                                 {"1", "element 2 of a list"},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text))} {
			got, err := read(r, Bounds{5, 64})
			if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s %.40q: %q, %v; want %q, %q", name, text, got, err, tt.want, tt.fault)
			}
		}
	}
	if _, err := read(strings.NewReader(`[1,2]`), Bounds{1, 64}); !errors.Is(err, ErrFull) {
		t.Errorf("too many: %v", err)
	}
	stop := errors.New("stop")
	if err := Each(strings.NewReader(`[1,2]`), Bounds{5, 64}, func(json.RawMessage) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller: %v", err)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// A list without an end, or an element without an end, takes no more memory than its
// bounds.
func TestEndless(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, piece := range []string{"{},", long(3), `"`} {
		if _, err := read(io.MultiReader(strings.NewReader("["), &endless{piece}), Bounds{1000, 4 << 10}); err == nil {
			t.Errorf("a list of %q without an end has no fault", piece)
		}
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 4<<20 {
		t.Errorf("%d bytes were needed", after.TotalAlloc-before.TotalAlloc)
	}
}

// endless repeats a text.
type endless struct{ text string }

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	return n, nil
}
