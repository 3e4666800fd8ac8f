package browser

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// names are the program names of Chromium. The headless shell comes first: for a page, it
// takes a quarter of the time of the whole browser and half of its memory.
var names = []string{"chromium-headless-shell", "chrome-headless-shell", "headless_shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}

// places are the paths where distributions install the program itself; the program in PATH
// is often a script that starts it.
var places = []string{
	"/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/headless_shell", "/usr/lib64/chromium-browser/headless_shell",
	"/usr/lib/chromium-browser/headless_shell", "/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser",
	"/usr/lib/chromium-browser/chromium-browser",
}

// Install says how to install a Chrome that can run here.
const Install = "apt-get install chromium-headless-shell (Debian, Ubuntu: the package of Debian, not the snap), dnf install chromium-headless (Fedora), apk add chromium (Alpine), pacman -S chromium (Arch)"

// errAbsent means that there is no Chrome that can run here.
var errAbsent = errors.New("no Chromium is installed where a box can see it")

// Find returns the path of the Chrome that a Pool uses by default: the program itself, in a
// directory that boxes can see. The error says how to get one.
func Find() (string, error) { return find(nil) }

// find is Find, except that check says why a path cannot be relied on. A program on the
// PATH may be in a workspace, and a workspace may be in one of the directories of visible.
func find(check func(string) error) (string, error) {
	candidates := slices.Clone(places[:4])
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			candidates = append(candidates, path)
		}
	}
	candidates = append(candidates, places[4:]...)
	var unfit error // why the first one that exists is not used
	for _, path := range candidates {
		found, err := program(path)
		if err == nil && check != nil {
			if err = check(path); err != nil {
				err = fmt.Errorf("%s is not used: %w", path, err)
			}
		}
		if err == nil {
			return found, nil
		}
		if unfit == nil && !errors.Is(err, fs.ErrNotExist) {
			unfit = err
		}
	}
	if unfit != nil {
		return "", fmt.Errorf("%w (%w); install it with: %s", errAbsent, unfit, Install)
	}
	return "", fmt.Errorf("%w; install it with: %s", errAbsent, Install)
}

// visible are the directories of the host that the box of a browser contains.
var visible = []string{"/usr/", "/bin/", "/lib/", "/lib64/", "/nix/store/"}

// program returns the file that is executed in the end, or an error if a box cannot execute
// it.
func program(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("find Chromium: %w", err)
	}
	seen := false
	for _, dir := range visible {
		seen = seen || strings.HasPrefix(path, dir)
	}
	if !seen {
		return "", fmt.Errorf("find Chromium: %s is in none of the directories that a box sees (%s)", path, strings.Join(visible, " "))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("find Chromium: %w", err)
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != "\x7fELF" {
		return "", fmt.Errorf("find Chromium: %s is not an ELF program, but perhaps a script that starts one", path)
	}
	return path, nil
}
