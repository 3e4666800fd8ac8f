package egress

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// BenchmarkMasked is what the search for a value costs a body.
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
