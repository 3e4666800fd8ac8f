package lex

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
)

// corpus returns texts of a standard library, about two megabytes, in the order of their
// paths. If every is n, it takes only each n-th file.
func corpus(b *testing.B, root, end string, every int) (names, texts []string, size int) {
	b.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(path, end) || size > 2<<20 {
			return nil
		}
		if n++; n%every != 0 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		names, texts, size = append(names, path), append(texts, string(text)), size+len(text)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if size == 0 {
		b.Skipf("%s: no files", root)
	}
	return names, texts, size
}

func benchmark(b *testing.B, language code.Language, root, end string, every int) {
	names, texts, size := corpus(b, root, end, every)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for i, text := range texts {
			Parse(names[i], language, text)
		}
	}
	b.ReportMetric(float64(len(texts)), "files/op")
}

func BenchmarkGo(b *testing.B) {
	benchmark(b, code.Go, testenv.GoSource(b), ".go", 40)
}

func BenchmarkPython(b *testing.B) { benchmark(b, code.Python, "/usr/lib/python3.11", ".py", 5) }

func BenchmarkOther(b *testing.B) {
	benchmark(b, code.Java, testenv.GoSource(b), ".go", 40)
}

func BenchmarkShell(b *testing.B) { benchmark(b, code.Shell, "/usr/bin", "sh", 1) }
