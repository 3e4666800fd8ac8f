package skills

import (
	"embed"
	"io/fs"
)

//go:embed builtin
var builtin embed.FS

// Builtin are the skills that are part of the program.
func Builtin() Source {
	sub, err := fs.Sub(builtin, "builtin")
	if err != nil {
		panic("skill: " + err.Error()) // the folder is part of the source
	}
	return Source{Name: "builtin", FS: sub, Trusted: true}
}
