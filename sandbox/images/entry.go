package images

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Bounds of one entry, and of the names of all entries together.
const (
	maxName   = 255       // bytes of one part of a path (NAME_MAX)
	maxPath   = 3072      // bytes of a path; the path of the store is added to it (PATH_MAX is 4096)
	maxDepth  = 128       // parts of a path
	maxTarget = 4095      // bytes of the target of a symbolic link
	maxNames  = 128 << 20 // bytes of all paths together
)

// EntryError reports the entry of an archive for which the image was refused.
type EntryError struct {
	Layer int    // number of the layer, from 1; 0 in an archive without layers
	Entry string // name of the entry, as the archive spells it
	Err   error
}

func (e *EntryError) Error() string {
	name := e.Entry
	if len(name) > 200 {
		name = name[:200] + "..."
	}
	if e.Layer > 0 {
		return fmt.Sprintf("entry %q of layer %d: %v", name, e.Layer, e.Err)
	}
	return fmt.Sprintf("entry %q: %v", name, e.Err)
}

func (e *EntryError) Unwrap() error { return e.Err }

// entryPath returns the path of an entry within the tree, "." for its root. A name that
// could mean a place outside is refused. It is not changed to a place inside, because its
// maker did not mean that place.
func entryPath(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("it has no name")
	case name[0] == '/':
		return "", errors.New("its name is absolute; archive the directory's content with relative names")
	case strings.ContainsRune(name, 0):
		return "", errors.New("its name contains a NUL character")
	case len(name) > maxPath:
		return "", fmt.Errorf("its name is %d bytes long, at most %d are allowed", len(name), maxPath)
	}
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", errors.New(`its name has a ".." in it`)
		case len(part) > maxName:
			return "", fmt.Errorf("a part of its name is %d bytes long, at most %d are allowed", len(part), maxName)
		case part != "" && part != ".":
			depth++
		}
	}
	if depth > maxDepth {
		return "", fmt.Errorf("it is %d directories deep, at most %d are allowed", depth, maxDepth)
	}
	return path.Clean(name), nil
}

// Markers of layers (OCI image specification, layer.md, "Whiteouts").
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	auxiliar = ".wh..wh." // a marker of AUFS, which means nothing here
)

// hidden returns what a marker hides: the name next to it or, if all is set, everything in
// its directory. Other names, and markers that mean nothing here, hide nothing; skip is set
// for such markers.
func hidden(base string) (name string, all, skip bool, err error) {
	switch {
	case base == opaque:
		return "", true, false, nil
	case strings.HasPrefix(base, auxiliar):
		return "", false, true, nil
	case !strings.HasPrefix(base, whiteout):
		return "", false, false, nil
	}
	name = strings.TrimPrefix(base, whiteout)
	if name == "" || name == "." || name == ".." {
		return "", false, false, errors.New("it is a whiteout without a name")
	}
	return name, false, false, nil
}

// inDev reports whether a path is below /dev, which each box has of its own.
func inDev(name string) bool { return strings.HasPrefix(name, "dev/") }
