package graph

import (
	"context"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// target is what an import leads to.
type target struct {
	files []int // of a package of Go or Java several; empty outside of the project
	sure  Sure
	std   bool // it is not looked for in the project: the language's own
}

// imports links files to those that they import.
func (b *builder) imports(ctx context.Context) error {
	for i, f := range b.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, im := range f.Imports {
			targets := b.resolve(i, im)
			found := false
			for _, t := range targets {
				for _, to := range t.files {
					found = true
					if f.Language == code.Go && strings.HasSuffix(b.files[to].Path, "_test.go") {
						continue // no package contains its tests for others
					}
					b.link(b.fileNode[i], b.fileNode[to], "imports", t.sure, im.Line)
					if f.Language == code.Go {
						break // the files of a package are one node
					}
				}
			}
			if !found {
				b.leave(plainPath(im.Path), i)
			}
		}
		for _, m := range b.declared[i] {
			for _, to := range b.rustChild(f.Path, m) {
				b.link(b.fileNode[i], b.fileNode[to], "imports", Certain, m.line)
			}
		}
	}
	return nil
}

// plainPath is the path of an import without quotes and brackets.
func plainPath(p string) string { return strings.Trim(p, "\"'<>` ") }

// resolve finds the files that an import of a file leads to.
func (x *index) resolve(file int, im code.Import) []target {
	f := x.files[file]
	switch f.Language {
	case code.Go:
		return one(x.goImport(f.Path, im.Path))
	case code.Rust:
		return x.rustImport(file, im)
	case code.Python:
		return x.pythonImport(f.Path, im)
	case code.TypeScript, code.TSX, code.JavaScript:
		return one(x.scriptImport(f.Path, plainPath(im.Path)))
	case code.C, code.CPP:
		return one(x.include(f.Path, im.Path))
	case code.Java:
		return one(x.javaImport(im))
	case code.Shell, code.Other:
	}
	return nil
}

func one(t target) []target {
	if len(t.files) == 0 {
		return nil
	}
	return []target{t}
}
