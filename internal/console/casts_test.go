package console

import (
	"fmt"
	"strings"
	"testing"
)

// A recording is read in parts, and a hostile one is refused: WC-A25.
func TestCasts(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"version":2,"width":80,"height":24}` + "\n")
	for i := range 300 {
		fmt.Fprintf(&b, "[%d.5,\"o\",\"\\u001b[3%dm%s\"]\n", i, i%8, strings.Repeat("x", 1000))
	}
	all, parts := 0, 0
	for from, end := 0, false; !end; parts++ {
		p, err := castFrom([]byte(b.String()), from)
		if err != nil {
			t.Fatal(err)
		}
		if p.Width != 80 || p.Seconds != 299.5 || p.From != from || p.Next <= from || len(p.Pieces) == 0 {
			t.Fatalf("from %d: %+v", from, p)
		}
		for i, piece := range p.Pieces {
			if want := fmt.Sprintf("fg%d", (from+i)%8); piece.Style != want || piece.At != float64(from+i)+0.5 {
				t.Fatalf("event %d: %+v", from+i, piece)
			}
		}
		all += len(p.Pieces)
		from, end = p.Next, p.End
	}
	if all != 300 || parts < 4 {
		t.Errorf("%d events in %d parts", all, parts)
	}
	head := `{"version":2,"width":80,"height":24}` + "\n"
	for name, text := range map[string]string{
		"nothing": "", "no header": "x\n", "times backwards": head + "[2,\"o\",\"a\"]\n[1,\"o\",\"b\"]\n", "NaN": head + "[NaN,\"o\",\"a\"]\n",
		"a text as time": head + "[\"1\",\"o\",\"a\"]\n", "a number as text": head + "[1,\"o\",2]\n", "negative": head + "[-1,\"o\",\"a\"]\n", "an object": head + "{}\n",
	} {
		if got, err := castFrom([]byte(text), 0); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	g := start(t, full)
	if got := g.send("GET", "api/v1/casts/c-1", g.login(Viewer), nil); got.status != 404 {
		t.Errorf("a call without a recording: got %d %s", got.status, got.body)
	}
}
