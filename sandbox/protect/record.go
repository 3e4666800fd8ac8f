package protect

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/diskfile"
)

// A server's knowledge of a workspace ends with the server. The next server would find the
// files that the boxes of the first one have left, and could not distinguish them from a
// person's: for example a repository that a command has moved. So the homes (see home),
// which are known by their inodes, and the files that give rights away are written to the
// state directory, where no box can write.

// maxSearched bounds the directories that are listed to find homes that are not where they
// were. A box chooses how many directories there are, and nobody can work in the workspace
// during the search. With more directories, a home that was not found may still be there.
const maxSearched = 1 << 20

// record is what one server leaves for the next.
type record struct {
	Workspace string        `json:"workspace"` // for people who read the file
	Homes     []recordEntry `json:"homes"`
	SetID     []string      `json:"set_id,omitempty"` // paths of the files that give rights away
}

// recordEntry is a home in the record. Its device is left out, because it may have another
// number after the next start of the machine.
type recordEntry struct {
	Path string `json:"path"`
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born"`
}

// recordFile returns the file of the record of a workspace, in a state directory, or "" if
// there is no such directory. The path of the workspace names the file: another workspace
// at the same path has other inodes.
func recordFile(state, workspace string) string {
	if state == "" {
		return ""
	}
	return filepath.Join(state, "protected", fmt.Sprintf("%x.json", sha256.Sum256([]byte(workspace))))
}

// load takes over what earlier servers knew. It searches the workspace for a home that is
// not where it was. If the search does not end within its bound, load fails, and nobody may
// work in the workspace.
func (k *knowledge) load() error {
	if k.record == "" {
		return nil
	}
	text, err := os.ReadFile(k.record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return fmt.Errorf("read what is known of the workspace: %w; remove %s if it is damaged", err, k.record)
	}
	missing := map[uint64]recordEntry{}
	for _, e := range r.Homes {
		if len(k.homes) >= maxHomes {
			break
		}
		if !k.recall(e.Path, e) {
			missing[e.Ino] = e
		}
	}
	k.setIDs = r.SetID
	if len(missing) == 0 {
		return nil
	}
	k.unsaved = true
	return k.search(missing, maxSearched)
}

// recall makes the directory at a path a home, if it is the one of an entry, and reports
// whether it is.
func (k *knowledge) recall(at string, e recordEntry) bool {
	h := k.entryAt(at, e)
	if h != nil {
		k.homes = append(k.homes, h)
	}
	return h != nil
}

// entryAt returns the home of an entry if it is at a path, or nil. The caller must close its
// directory.
func (k *knowledge) entryAt(at string, e recordEntry) *home {
	dir, err := openDir(k.root, at, unix.O_PATH)
	if err != nil {
		return nil
	}
	id, err := birthOf(dir)
	if err != nil || id.ino != e.Ino || id.born != e.Born {
		dir.Close()
		return nil
	}
	return &home{path: at, id: id, dir: dir}
}

// search lists the directories of the workspace, at most the number most of them, to find
// homes that are not where they were. If it has listed all, a home that it has not found was
// removed; otherwise search fails.
func (k *knowledge) search(missing map[uint64]recordEntry, most int) error {
	queue := []string{"."} // directories that were or will be listed
	whole := true          // whether queue has room for all directories
	for n := 0; n < len(queue) && len(missing) > 0; n++ {
		at := queue[n]
		queue[n] = "" // frees the path
		dir, err := openDir(k.root, at, 0)
		if err != nil {
			continue // removed meanwhile, or closed to everybody
		}
		err = eachEntry(dir, func(e dirent) bool {
			if e.kind != unix.DT_DIR && e.kind != unix.DT_UNKNOWN {
				return true
			}
			here := path.Join(at, e.name)
			if want, ok := missing[e.ino]; ok && k.recall(here, want) {
				delete(missing, e.ino)
			}
			if len(queue) < most {
				queue = append(queue, here)
			} else {
				whole = false
			}
			return len(missing) > 0
		})
		dir.Close()
		if err != nil {
			return fmt.Errorf("look for repositories that were moved: %s: %w", plain(at), err)
		}
	}
	if !whole && len(missing) > 0 {
		var names []string
		for _, e := range missing {
			names = append(names, fmt.Sprintf("%q", plain(e.Path)))
		}
		slices.Sort(names)
		if len(names) > maxTold {
			names = append(names[:maxTold], fmt.Sprintf("and %d others", len(names)-maxTold))
		}
		return fmt.Errorf("these repositories are not where they were, and were not found in %d directories, and the workspace has more: %s; put them back, or remove %s if a person moved or removed them", most, strings.Join(names, ", "), k.record)
	}
	return nil
}

// save writes the record, if homes or setIDs have changed. Another server in the workspace
// may know more homes: their entries stay if the homes are still there.
func (k *knowledge) save() error {
	if k.record == "" || !k.unsaved {
		return nil
	}
	r := record{Workspace: k.where, SetID: k.setIDs}
	known := map[uint64]bool{}
	for _, h := range k.homes {
		known[h.id.ino] = true
		r.Homes = append(r.Homes, recordEntry{h.path, h.id.ino, h.id.born})
	}
	if text, err := os.ReadFile(k.record); err == nil {
		var old record
		if json.Unmarshal(text, &old) == nil {
			for _, e := range old.Homes {
				if known[e.Ino] || len(r.Homes) >= maxHomes {
					continue
				}
				if h := k.entryAt(e.Path, e); h != nil {
					r.Homes = append(r.Homes, e)
					h.dir.Close()
				}
			}
		}
	}
	text, err := json.MarshalIndent(&r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.record), 0o700); err != nil {
		return err
	}
	if err := diskfile.Replace(k.record, text, 0o600); err != nil {
		return err
	}
	k.unsaved = false
	return nil
}
