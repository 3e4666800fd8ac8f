package skills

import (
	"embed"
	"io/fs"
)

//go:embed builtin toolkit
var builtin embed.FS

// Builtin are the skills that are part of the program.
func Builtin() Source { return within("builtin") }

// Toolkit are those about the tools of the toolkit.
func Toolkit() Source { return within("toolkit") }

func within(folder string) Source {
	sub, err := fs.Sub(builtin, folder)
	if err != nil {
		panic("skill: " + err.Error()) // the folder is part of the source
	}
	return Source{Name: folder, FS: sub, Trusted: true}
}
