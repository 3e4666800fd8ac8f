package skills

import (
	"embed"
	"io/fs"
)

//go:embed builtin toolkit
var builtin embed.FS

// Builtin returns the source of the skills that are part of the program.
func Builtin() Source { return within("builtin") }

// Toolkit returns the source of the skills about the toolkit.
func Toolkit() Source { return within("toolkit") }

func within(folder string) Source {
	sub, err := fs.Sub(builtin, folder)
	if err != nil {
		panic("skill: " + err.Error()) // does not happen: the folder is part of the program
	}
	return Source{Name: folder, FS: sub, Trusted: true}
}
