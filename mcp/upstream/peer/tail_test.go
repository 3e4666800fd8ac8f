package peer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("y", 100<<10)
	for _, tt := range []struct {
		name  string
		write []string
		want  []string // the last three lines
	}{
		{"empty", nil, nil},
		{"blank", []string{"\n \r\n\n"}, nil},
		{"lines", []string{"a\nb\n", "c\r\nd", "e\n\n"}, []string{"b", "c", "de"}},
		{"no break", []string{"a"}, []string{"a"}},
		{"control characters", []string{"\x1b]0;owned\x07\u202ex\tz\n\xff\n"}, []string{`^[]0;owned^G\u202ex z`, `\xff`}},
		{"wrapped", []string{long, "\nfirst\n", long, "\nlast\n"}, []string{"…" + strings.Repeat("y", tailLine) + "…", "last"}},
		{"exactly full", []string{strings.Repeat("x", tailBytes-2) + "\n", "z"}, []string{strings.Repeat("x", tailLine) + "…", "z"}},
	} {
		var tail Tail
		for _, text := range tt.write {
			if n, err := tail.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: Write returned %d, %v", tt.name, n, err)
			}
		}
		if got := tail.Lines(3); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		want := tt.want
		if n := len(want); n > 0 && !strings.HasSuffix(tt.write[len(tt.write)-1], "\n") {
			want = want[:n-1]
		}
		if got := tail.Ended(3); !slices.Equal(got, want) {
			t.Errorf("%s: ended are %q, want %q", tt.name, got, want)
		}
	}
	// A line that is cut within a character, at its beginning or its end, shows no part of
	// the character.
	for n := range 4 {
		var tail Tail
		_, _ = tail.Write([]byte(strings.Repeat("ä€", 20_000) + strings.Repeat("x", n) + "\nend"))
		if got := tail.Lines(2)[0]; strings.Trim(got, "…ä€x") != "" || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes on, a line is %.20q to %q", n, got, got[len(got)-20:])
		}
	}
	// The last bytes are kept for writes of any sizes, and the ring does not grow.
	var tail Tail
	var all strings.Builder
	for i := range 20_000 {
		text := fmt.Sprintf("%d:%s\n", i, strings.Repeat("z", i%37))
		all.WriteString(text)
		if _, err := tail.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, lost := tail.bytes(); string(got) != all.String()[all.Len()-tailBytes:] || !lost {
		t.Error("the tail is not the end of what was written")
	}
	if len(tail.ring) != tailBytes {
		t.Errorf("%d bytes are kept", len(tail.ring))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				tail.Write([]byte("line\n"))
				tail.Lines(5)
			}
		})
	}
	group.Wait()
}
