package search

import (
	"os"
	"testing"
)

func BenchmarkBrave(b *testing.B) {
	s, err := LoadEngines("")
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile("/work/shared/data/search/brave.wsm.results.html")
	if err != nil {
		b.Skip(err)
	}
	e := s.Find("brave")
	b.ReportAllocs()
	for b.Loop() {
		if p := e.Parse(Response{Body: text}); len(p.Hits) != 20 {
			b.Fatal(len(p.Hits))
		}
	}
}
