package protect

import (
	"fmt"
	"os"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// BenchmarkProtect measures the look after a command: if nothing changed, and if the
// workspace's top directory did, so that everything is looked at.
func BenchmarkProtect(b *testing.B) {
	for _, world := range []struct {
		name    string
		prepare func(dir string)
	}{
		{"empty", nil},
		{"repository", func(dir string) {
			put(b, dir+"/.git/config", "[core]\n\tbare = false\n")
			put(b, dir+"/.git/hooks/pre-commit", "")
			put(b, dir+"/.vscode/settings.json", "{}")
			for i := range 30 {
				put(b, fmt.Sprintf("%s/dir%d/file", dir, i), "")
				put(b, fmt.Sprintf("%s/file%d", dir, i), "")
			}
		}},
	} {
		p, dir := guarded(b, world.prepare)
		settled := func(b *testing.B) {
			b.Helper()
			// Wait until the new files are old enough that their times show later changes.
			if !testenv.Until(5*time.Second, func() bool {
				if _, err := p.check(); err != nil {
					b.Fatal(err)
				}
				return p.seen != nil
			}) {
				b.Fatal("every look is a whole one")
			}
		}
		b.Run(world.name+"/unchanged", func(b *testing.B) {
			settled(b)
			for b.Loop() {
				if told, err := p.check(); err != nil || len(told) > 0 {
					b.Fatal(told, err)
				}
			}
			if p.seen == nil {
				b.Fatal("these were whole looks")
			}
		})
		b.Run(world.name+"/begin and end", func(b *testing.B) {
			settled(b)
			for b.Loop() {
				if told := during(b, p, func() {}); len(told) > 0 {
					b.Fatal(told)
				}
			}
		})
		b.Run(world.name+"/whole", func(b *testing.B) {
			for b.Loop() {
				p.seen = nil
				if told, err := p.check(); err != nil || len(told) > 0 {
					b.Fatal(told, err)
				}
			}
		})
		b.Run(world.name+"/harmless git made by the box", func(b *testing.B) {
			if world.prepare != nil {
				b.Skip("it has one of its own")
			}
			must(b, p.start())
			put(b, dir+"/.git/config", "[core]\n\tbare = false\n")
			for i := range 14 {
				put(b, fmt.Sprintf("%s/.git/hooks/%d.sample", dir, i), "")
			}
			settled(b)
			for b.Loop() {
				if told, err := p.check(); err != nil || len(told) > 0 {
					b.Fatal(told, err)
				}
			}
		})
	}
}

// BenchmarkWalk measures a walk through as many directories as a project with node_modules
// has: the first walk, and later walks, before which nothing has changed.
func BenchmarkWalk(b *testing.B) {
	const directories = 50_000
	_, dir := guarded(b, func(dir string) {
		for i := range directories / 10 {
			for j := range 9 {
				put(b, fmt.Sprintf("%s/node_modules/p%d/lib%d/index.js", dir, i, j), "")
			}
		}
	})
	f, err := os.Open(dir)
	must(b, err)
	defer f.Close()
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			p, err := newProtector(f, nil, "")
			must(b, err)
			p.schedule.closed = true
			must(b, p.Close())
		}
	})
	b.Run("later", func(b *testing.B) {
		p, err := newProtector(f, nil, "")
		must(b, err)
		p.schedule.closed = true
		p.walkAll(b)
		for b.Loop() {
			p.walkAll(b)
		}
		must(b, p.Close())
	})
}
