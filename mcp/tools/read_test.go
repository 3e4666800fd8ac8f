package tools

import (
	"regexp"
	"strings"
	"testing"
)

// written is a source that no longer keeps the bytes before gone.
type written struct {
	text string
	gone int64
}

func (w written) Size() int64 { return int64(len(w.text)) }

func (w written) Read(offset int64, limit int) (text []byte, next, skipped int64, err error) {
	from := max(offset, w.gone)
	to := min(from+int64(limit), w.Size())
	return []byte(w.text[from:to]), to, from - offset, nil
}

func TestReadPage(t *testing.T) {
	match := regexp.MustCompile
	for _, c := range []struct {
		name  string
		o     written
		from  int64
		ended bool
		r     reading
		want  part
	}{
		{
			name: "all that is new", o: written{text: "one\ntwo\n"}, from: 4, r: reading{show: 100},
			want: part{text: "two\n", next: 8, seen: 8},
		},
		{
			name: "as much as is shown", o: written{text: "onetwo"}, r: reading{show: 4},
			want: part{text: "onet", next: 4, seen: 6, unread: 2},
		},
		{
			name: "a character that has arrived in part", o: written{text: "a\xc3"}, r: reading{show: 100},
			want: part{text: "a", next: 1, seen: 2, unread: 1},
		},
		{
			name: "a character that will never be whole", o: written{text: "a\xc3"}, ended: true, r: reading{show: 100},
			want: part{text: "a\uFFFD", next: 2, seen: 2},
		},
		{
			name: "what is no longer kept", o: written{text: "0123456789", gone: 6}, from: 2, r: reading{show: 100},
			want: part{text: "6789", next: 10, seen: 10, lost: 4, skipped: 4},
		},
		{
			name: "past the end", o: written{text: "abc"}, from: 99, r: reading{show: 100},
			want: part{next: 3, seen: 3},
		},
		{
			name: "lines that match", o: written{text: "error a\r\nfine\nerror b\n"}, r: reading{filter: match(`^error .$`), show: 100},
			want: part{text: "error a\r\nerror b\n", next: 22, seen: 22, skipped: 5},
		},
		{
			name: "an unfinished line is left for the next time", o: written{text: "error a\nerr"}, r: reading{filter: match("error"), show: 100},
			want: part{text: "error a\n", next: 8, seen: 11, unread: 3},
		},
		{
			name: "an unfinished line of an ended task", o: written{text: "error a\nerror b"}, ended: true, r: reading{filter: match("error"), show: 100},
			want: part{text: "error a\nerror b", next: 15, seen: 15},
		},
		{
			name: "a match that has no room waits", o: written{text: "aaa\nxxx\naab\naac\n"}, r: reading{filter: match("a"), show: 8},
			want: part{text: "aaa\naab\n", next: 12, seen: 16, skipped: 4, unread: 4},
		},
		{
			name: "the last lines", o: written{text: "1\n2\n3\n4\n"}, ended: true, r: reading{tail: 2, show: 100},
			want: part{text: "3\n4\n", next: 8, seen: 8, skipped: 4},
		},
		{
			name: "the last lines that match", o: written{text: "a1\nb\na2\na3\nb\n"}, ended: true, r: reading{tail: 2, filter: match("a"), show: 100},
			want: part{text: "a2\na3\n", next: 13, seen: 13, skipped: 7},
		},
		{
			name: "lines with some of the beginning gone", o: written{text: "one\ntwo\nthree\n", gone: 4}, ended: true, r: reading{tail: 5, show: 100},
			want: part{text: "two\nthree\n", next: 14, seen: 14, lost: 4, skipped: 4},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := takePart(c.o, c.from, c.ended, c.r)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestReadPageIsBounded(t *testing.T) {
	o := written{text: strings.Repeat("x", 1<<20)} // one line, like the output of a program that writes no line breaks
	got, err := takePart(o, 0, true, reading{filter: regexp.MustCompile("x"), show: outputShown})
	if err != nil || len(got.text) > outputShown || got.text == "" {
		t.Errorf("got %d bytes, %v, want 1 to %d", len(got.text), err, outputShown)
	}
	if got.unread != int64(len(o.text)-len(got.text)) {
		t.Errorf("got %d bytes unread of %d with %d shown", got.unread, len(o.text), len(got.text))
	}
}

// FuzzReadPage reads an output page by page and selects lines: every byte is shown or
// counted as skipped, exactly once.
func FuzzReadPage(f *testing.F) {
	f.Add("one\ntwo\nthree", "t", 3, 0, int64(0))
	f.Add(strings.Repeat("ab\n", 50), "", 7, 2, int64(9))
	f.Fuzz(func(t *testing.T, text, filter string, show, tail int, gone int64) {
		pattern, err := regexp.Compile(filter)
		if err != nil || show < 1 || show > 1<<16 || tail < 0 || gone < 0 || gone > int64(len(text)) {
			t.Skip()
		}
		o := written{text: text, gone: gone}
		r := reading{filter: pattern, tail: tail, show: show}
		var from int64
		for range len(text) + 1 {
			p, err := takePart(o, from, true, r)
			if err != nil {
				t.Fatal(err)
			}
			if p.next < from || p.next > o.Size() || p.skipped < 0 || p.unread != o.Size()-p.next {
				t.Fatalf("from %d: got %+v of %d bytes", from, p, o.Size())
			}
			if p.next == o.Size() {
				return
			}
			if p.next == from {
				t.Fatalf("from %d: no way forward: %+v", from, p)
			}
			from = p.next
		}
		t.Fatalf("not at the end after %d reads", len(text)+1)
	})
}
