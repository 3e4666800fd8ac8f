package hooks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
)

// Folder is a directory of hooks. It contains a directory for each event.
type Folder struct {
	Dir string // path of the directory, which need not exist
	// Beneath, if set, is the directory in which Dir lies; Dir is then a relative path. A
	// link that leads out of Beneath is not followed.
	Beneath string
}

// path returns the path of the folder, for people.
func (f Folder) path() string { return filepath.Join(f.Beneath, f.Dir) }

// Hook is one program.
type Hook struct {
	Event  string
	Name   string
	Path   string // on the host
	Sync   bool   // whether belljar waits for it
	OnHost bool   // whether the operator has it run outside a box
	Off    bool   // whether its name begins with "_" or "."
	Why    string // reason why it cannot be run; empty if it can

	interpreter *interpreter
	folder      Folder
}

// interpreter describes the program that runs files with an extension.
type interpreter struct {
	program string
	inline  []string // arguments before the text of the script
	after   []string // arguments between the text and the hook's own arguments
	named   bool     // whether the first argument is the script's own name
}

// interpreters are the interpreters by extension. A file without an extension is a script
// for bash. Python looks for no module in its working directory or the user's home, and
// reads no variable (python(1), -I).
var interpreters = map[string]*interpreter{
	"":      {"bash", []string{"-c"}, nil, true},
	".sh":   {"sh", []string{"-c"}, nil, true},
	".bash": {"bash", []string{"-c"}, nil, true},
	".py":   {"python3", []string{"-I", "-c"}, nil, false},
	".js":   {"node", []string{"-e"}, []string{"--"}, true},
	".mjs":  {"node", []string{"--input-type=module", "-e"}, []string{"--"}, true},
	".cjs":  {"node", []string{"-e"}, []string{"--"}, true},
	".pl":   {"perl", []string{"-e"}, nil, false},
	".rb":   {"ruby", []string{"-e"}, nil, false},
}

// extensions lists the extensions that have an interpreter.
const extensions = ".sh, .bash, .py, .js, .mjs, .cjs, .pl, .rb, or none for bash"

// find returns the hooks of a folder for an event, sorted by name. If event is empty, find
// returns the hooks for all events.
func (f Folder) find(event string) ([]Hook, error) {
	root, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("hooks %s: %w", f.path(), err)
	}
	defer root.Close()
	events := []string{event}
	if event == "" {
		if events, err = names(root, maxEvents); err != nil {
			return nil, fmt.Errorf("hooks %s: %w", f.path(), err)
		}
	}
	var all []Hook
	for _, name := range events {
		if !isEvent(name) {
			continue
		}
		found, err := f.findIn(root, name)
		if err != nil {
			return nil, fmt.Errorf("hooks %s: %w", filepath.Join(f.path(), name), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// findIn returns the hooks of one event.
func (f Folder) findIn(root *os.File, event string) ([]Hook, error) {
	dir, err := beneath(root, event, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer dir.Close()
	files, err := names(dir, maxHooks)
	if err != nil {
		return nil, err
	}
	all := make([]Hook, 0, len(files))
	for _, name := range files {
		h := Hook{
			Event: event, Name: name, Path: filepath.Join(f.path(), event, name), folder: f,
			Off: strings.HasPrefix(name, "_") || strings.HasPrefix(name, "."), Sync: strings.HasPrefix(strings.TrimLeft(name, "_."), "sync-"),
		}
		if strings.EqualFold(name, "README.md") {
			continue
		}
		h.interpreter = interpreters[path.Ext(name)]
		if h.interpreter == nil {
			h.Why = fmt.Sprintf("no program is known that runs %s files; the extensions are %s", printable.Line(path.Ext(name), 20), extensions)
		} else if file, err := openScript(dir, name); err != nil {
			h.Why = err.Error()
		} else {
			file.Close()
		}
		all = append(all, h)
	}
	return all, nil
}

// open opens the directory of the folder.
func (f Folder) open() (*os.File, error) {
	if f.Beneath == "" {
		return os.OpenFile(f.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	base, err := os.OpenFile(f.Beneath, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	return beneath(base, f.Dir, unix.O_RDONLY|unix.O_DIRECTORY)
}

// beneath opens the file or directory name in dir, unless its path leads out of dir.
func beneath(dir *os.File, name string, flags int) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), name, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.EXDEV):
			return nil, errors.New("it is a symbolic link that leads out of its folder, which is not followed")
		case err != nil:
			return nil, err
		default:
			return os.NewFile(uintptr(fd), name), nil
		}
	}
}

// openScript opens a hook to read it.
func openScript(dir *os.File, name string) (*os.File, error) {
	f, err := beneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK) // O_NONBLOCK: opening a FIFO must not block
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > MaxScript:
		err = fmt.Errorf("it has %d bytes, at most %d are allowed", info.Size(), MaxScript)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// script returns the present text of a hook. For a hook on the host, the file, the directory
// of its event and the folder must not be writable by other users.
func (h Hook) script() (string, error) {
	root, err := h.folder.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir, err := beneath(root, h.Event, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	f, err := openScript(dir, h.Name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if h.OnHost {
		for _, one := range []*os.File{root, dir, f} {
			if err := onlyOurs(one); err != nil {
				return "", err
			}
		}
	}
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(f, MaxScript+1))
	if err == nil && n > MaxScript {
		err = fmt.Errorf("it has more than %d bytes", MaxScript)
	}
	return b.String(), err
}

// onlyOurs returns an error if other users could have changed a file. The error states the
// reason.
func onlyOurs(f *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	switch {
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user, so the hook does not run outside a box", f.Name())
	case stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink > 1:
		return fmt.Errorf("%s has a second name (hard link), which may lie where a box can write, so the hook does not run outside a box; make it a copy", f.Name())
	case stat.Mode&0o022 != 0:
		return fmt.Errorf("other users can write %s, so the hook does not run outside a box; run chmod go-w on it", f.Name())
	}
	return nil
}

// listing is an open directory.
type listing interface {
	Readdirnames(n int) ([]string, error)
}

// names returns the entries of a directory, sorted. It is an error if their number exceeds
// most.
func names(dir listing, most int) ([]string, error) {
	all, err := dir.Readdirnames(most + 1)
	if err != nil && !errors.Is(err, io.EOF) { // names without the rest could lack a hook that refuses
		return nil, err
	}
	if len(all) > most {
		return nil, fmt.Errorf("more than %d entries", most)
	}
	slices.Sort(all)
	return all, nil
}
