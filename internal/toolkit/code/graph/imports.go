package graph

import (
	"context"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// imports links files to the files that they import.
func (b *builder) imports(ctx context.Context) error {
	for i, f := range b.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		for k, im := range f.Imports {
			targets := b.meaning(i).targets[k]
			found := false
			for _, t := range targets {
				for _, to := range t.files {
					found = true
					if f.Language == code.Go && strings.HasSuffix(b.files[to].Path, "_test.go") {
						continue // a package that others import does not contain its tests
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
