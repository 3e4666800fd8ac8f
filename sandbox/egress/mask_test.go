package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// endless is a reader that returns a beginning and then the same byte forever.
type endless struct {
	begin string
	byte  byte
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.begin)
	e.begin = e.begin[n:]
	for ; n < len(p); n++ {
		p[n] = e.byte
	}
	e.read += len(p)
	return len(p), nil
}

// TestMaskedEndless reads texts that continue like the beginning of a value forever.
func TestMaskedEndless(t *testing.T) {
	const value = "ghp_abcdefghijklmnop"
	m := newMasker([]mask{newMask("a", value)})
	for _, text := range []*endless{
		{begin: "ghp_", byte: 0},
		{begin: hex.EncodeToString([]byte("ghp_")), byte: ' '},
		{begin: base64.StdEncoding.EncodeToString([]byte("ghp_abcde")), byte: '\n'},
	} {
		begin := text.begin
		r := newMasked(text, m)
		out, err := io.ReadAll(io.LimitReader(r, 64<<20))
		if !errors.Is(err, errHeld) || text.read > 2*maxHeld || len(out) > maxHeld {
			t.Errorf("%q: %d bytes read, %d given on, error %v; want an error before %d are held", begin, text.read, len(out), err, maxHeld)
		}
	}
	// The longest value, with each character escaped, is found.
	longest := strings.Repeat("0123456789abcdef", maxValue/16)
	var text strings.Builder
	for _, c := range []byte(hex.EncodeToString([]byte(longest))) {
		fmt.Fprintf(&text, `\u%04x`, c)
	}
	m = newMasker([]mask{newMask("a", longest)})
	out, err := io.ReadAll(newMasked(strings.NewReader(text.String()), m))
	if err != nil || strings.Trim(string(out), "*") != "" {
		t.Errorf("the longest value: %.80q, %v; want it blotted out", out, err)
	}
}

// TestMaskedTurns takes part in each step of a search: the search takes the turn of its box
// and one of the places of all boxes, and releases both.
func TestMaskedTurns(t *testing.T) {
	const text = "is ghp_abcdefghijklmnop"
	slots := searches
	searches = make(chan struct{})
	defer func() { searches = slots }()
	m := newMasker([]mask{newMask("a", "ghp_abcdefghijklmnop")})
	turn := turns{make(chan struct{}), make(chan struct{})}
	m.turn = turn
	if out := m.blot("~~~~~~"); out != "~~~~~~" { // nothing is searched
		t.Errorf("output %q", out)
	}
	ended := make(chan string, 1)
	go func() { ended <- m.blot(text) }()
	for i, step := range []func() bool{
		func() bool { return meets(turn.locked, ended) },
		func() bool { return meets(searches, ended) },
		func() bool { // releases the place
			select {
			case searches <- struct{}{}:
				return true
			case <-ended:
				return false
			}
		},
		func() bool { return meets(turn.unlocked, ended) },
	} {
		if !step() {
			t.Fatalf("the search ended before step %d", i)
		}
	}
	if out := <-ended; out != "is "+strings.Repeat("*", 20) {
		t.Errorf("output %q", out)
	}
	v := newVault(nil)
	v.keep("a", "ghp_abcdefghijklmnop")
	v.keep("b", "ghp_qrstuvwxyzabcdef")
	if v.masker("a").turn != v.masker("b").turn {
		t.Error("two texts of one box are searched at once")
	}
}

// turns is a lock that waits for the test at each step.
type turns struct{ locked, unlocked chan struct{} }

func (l turns) Lock()   { l.locked <- struct{}{} }
func (l turns) Unlock() { l.unlocked <- struct{}{} }

// meets reports whether a search reaches a step before it ends.
func meets(step chan struct{}, ended chan string) bool {
	select {
	case <-step:
		return true
	case <-ended:
		return false
	}
}

// BenchmarkMasked measures the cost of the search for a value in a body.
func BenchmarkMasked(b *testing.B) {
	page, err := os.ReadFile("http_test.go")
	if err != nil {
		b.Fatal(err)
	}
	random := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(random)
	for name, text := range map[string][]byte{
		"random": random,
		"text":   bytes.Repeat(page, 1<<20/len(page)+1)[:1<<20],
		"html":   []byte(strings.Repeat(`<a href="/s?a=b&amp;c=%20">s&eacute;cr&quot; = 'gh'</a>`+"\n", 1<<20/50)),
	} {
		m := newMasker([]mask{newMask("a", "ghp_"+strings.Repeat("Zx81", 9))})
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				io.Copy(io.Discard, struct{ io.Reader }{newMasked(bytes.NewReader(text), m)})
			}
		})
	}
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newMasker([]mask{newMask("a", "ghp_"+strings.Repeat("Zx81", 9))})
		}
	})
}
