package console

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The boxes, sessions and tasks that run are shown, and can be ended in the name of the
// person.
func TestRuns(t *testing.T) {
	f := &runs{}
	g := start(t, func(_ *rig, v *Views) { v.Runs = f })
	token := g.login(Operator)
	for _, tt := range []struct {
		path string
		body any
		want int
	}{
		{"boxes/s-1/kill", struct{}{}, 200},
		{"boxes/s-2/kill", struct{}{}, 404},
		{"sessions/s-1/end", map[string]string{"note": "enough"}, 200},
		{"sessions/s-2/end", struct{}{}, 404},
		{"jobs/s-1/3/end", struct{}{}, 200},
		{"jobs/s-1/4/end", struct{}{}, 404},
		{"jobs/s-1/x/end", struct{}{}, 404},
		{"boxes/s-1/kill", map[string]string{"force": "yes"}, 400},
	} {
		if got := g.send("POST", "api/v1/"+tt.path, token, tt.body); got.status != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.path, got.status, got.body, tt.want)
		}
	}
	if want := []string{"s-1 by ann (uid 7)", "s-1 by ann (uid 7): enough", "task by ann (uid 7)"}; !slices.Equal(f.ended, want) {
		t.Errorf("ended: %q, want %q", f.ended, want)
	}
	var views struct {
		Views []string `json:"views"`
	}
	g.send("GET", "api/v1/me", token, nil).into(t, &views)
	if want := "[inbox history boxes sessions jobs]"; fmt.Sprint(views.Views) != want {
		t.Errorf("views are %v, want %s", views.Views, want)
	}
}

// textOf returns the text of pieces without their styles.
func textOf(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// An output is read in parts. Each part begins where the part before has ended, and nothing
// is lost or shown twice.
func TestOutputInParts(t *testing.T) {
	var out bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&out, "\x1b[3%dm%d é€😀\x1b[0m line\n", i%8, i)
	}
	f := &runs{output: out.Bytes(), over: true}
	g := start(t, func(_ *rig, v *Views) { v.Runs = f })
	token := g.login(Viewer)
	part := func(from int64) (p outputPart) {
		g.send("GET", fmt.Sprintf("api/v1/jobs/s-1/3/output?from=%d", from), token, nil).into(t, &p)
		return p
	}
	var got strings.Builder
	parts := 0
	for at := int64(0); ; parts++ {
		p := part(at)
		if p.From != at || p.Next < at || p.Next-at > maxPart || p.Total != int64(out.Len()) || p.Skipped != 0 {
			t.Fatalf("from %d: %d to %d of %d", at, p.From, p.Next, p.Total)
		}
		got.WriteString(textOf(p.Pieces))
		if at = p.Next; p.End {
			break
		}
	}
	if want := textOf(render(out.Bytes(), style{})); got.String() != want || parts < 5 {
		t.Errorf("in %d parts: %d bytes of text, want %d", parts, got.Len(), len(want))
	}
	for i := range out.Len() / 20 { // a line with a carriage return is shown completely, in one part
		fmt.Fprintf(&out, "%d%% of it\r%d\n", i, i)
	}
	f.output = out.Bytes()
	got.Reset()
	for at := int64(0); ; {
		p := part(at)
		got.WriteString(textOf(p.Pieces))
		if at = p.Next; p.End {
			break
		}
	}
	if want := textOf(render(out.Bytes(), style{})); got.String() != want {
		t.Errorf("with carriage returns: %d bytes of text, want %d", got.Len(), len(want))
	}
	if p := part(-100); p.From != p.Total-100 || !p.End {
		t.Errorf("the last 100 bytes: %d to %d of %d", p.From, p.Next, p.Total)
	}
	if p := part(1 << 40); p.From != p.Total || !p.End || len(p.Pieces) != 0 {
		t.Errorf("behind the end: %+v", p)
	}
	at := int64(bytes.Index(f.output, []byte("1001 é"))) // this place has a style that was set earlier
	if p := part(at); p.Pieces[0].Style != "fg1" {
		t.Errorf("the look from before is %q", p.Pieces[0].Style)
	}
	f.gone = 50_000
	if p := part(100); p.From != f.gone || p.Skipped != f.gone-100 || p.Next <= f.gone {
		t.Errorf("where the beginning is gone: %d to %d, %d skipped", p.From, p.Next, p.Skipped)
	}
	for _, text := range []string{"x", "1.5", "99999999999999999999"} {
		if got := g.send("GET", "api/v1/jobs/s-1/3/output?from="+text, token, nil); got.status != 400 {
			t.Errorf("from=%s: got %d", text, got.status)
		}
	}
	// The task still writes: a part that was shown never changes when more output follows.
	f.gone, f.over = 0, false
	all := f.output[:200_000]
	got.Reset()
	for at, size := int64(0), 0; size < len(all); {
		size = min(len(all), size+1+rand.IntN(40_000))
		f.output = all[:size]
		for {
			p := part(at)
			got.WriteString(textOf(p.Pieces))
			if p.Next == at {
				break
			}
			at = p.Next
		}
	}
	if want := textOf(render(all, style{})); !strings.HasPrefix(want, got.String()) || len(want)-got.Len() > 16 {
		t.Errorf("while it goes on: %d bytes of text, want %d", got.Len(), len(want))
	}
}
