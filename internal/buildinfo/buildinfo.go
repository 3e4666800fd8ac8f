package buildinfo

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	_ "unsafe" // for go:linkname
)

// init answers `belljar --version`, the command line of scripts and installers that look
// for belljar. Most packages are not initialised yet, which takes most of the time of a
// command that does nothing: Go initialises first what imports little, and then by the
// name of the package. This is why the package imports few others, and not runtime/debug,
// which sorts behind nearly everything that it could come before. A version that cannot
// be written is left to main, which says why.
func init() {
	if len(os.Args) != 2 || os.Args[1] != "--version" {
		return
	}
	text := Read().String()
	// Not os.Stdout, which ends the process where nobody reads.
	if n, err := syscall.Write(1, []byte(text)); n == len(text) && err == nil {
		os.Exit(0)
	}
}

// Release is the version this source leads to.
const Release = "0.1.0"

// Info is what is known of this binary. Its JSON is an interface: keys may be
// added, and no key is removed or changes its meaning.
type Info struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // the commit; empty where the build was not told
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Dirty    bool   `json:"dirty"`              // files differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// modinfo is the text that debug.ReadBuildInfo parses. The function is the runtime's, which
// gives it to runtime/debug; without modinfo.s the compiler would ask for its body.
//
//go:linkname modinfo runtime/debug.modinfo
func modinfo() string

// Read is what is known of this binary.
func Read() Info {
	// The linker puts 16 bytes before and behind the text, by which other programs find it.
	const around = 16
	text := modinfo()
	if len(text) < 2*around {
		return buildOf("")
	}
	return buildOf(text[around : len(text)-around])
}

// buildOf reads what the linker wrote down: of the working tree for `go build`,
// of the module for `go install belljar.dev/cmd/belljar@VERSION`. Of its lines these two
// count (debug.BuildInfo.String):
//
//	mod	PATH	VERSION	SUM
//	build	KEY=VALUE
func buildOf(text string) Info {
	b := Info{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch kind {
		case "mod":
			_, rest, _ = strings.Cut(rest, "\t")
			b.Version, _, _ = strings.Cut(rest, "\t")
		case "build":
			switch key, value, _ := strings.Cut(rest, "="); key {
			case "vcs.revision":
				b.Revision = value
			case "vcs.time":
				b.Time = value
			case "vcs.modified":
				b.Dirty = value == "true"
			}
		}
	}
	revision, pseudo := pseudoVersion(b.Version)
	if b.Version == "" || b.Version == "(devel)" || pseudo {
		// No release: the one it leads to, and the commit as build metadata (semver 10).
		if b.Revision == "" {
			b.Revision = revision
		}
		b.Version = Release + "-dev"
		if b.Revision != "" {
			b.Version += "+g" + b.Revision[:min(12, len(b.Revision))]
			if b.Dirty {
				b.Version += ".dirty"
			}
		}
	}
	return b
}

// pseudoVersion returns the commit of a version that Go made of it, for example
// v0.1.1-0.20261123094500-0123456789ab (go.dev/ref/mod#pseudo-versions).
func pseudoVersion(version string) (revision string, ok bool) {
	version, _, _ = strings.Cut(version, "+")
	at := strings.LastIndexByte(version, '-')
	if at < 0 {
		return "", false
	}
	before, revision := version[:at], version[at+1:]
	const stamp = len("20060102150405")
	if revision == "" || len(before) <= stamp || !strings.ContainsRune("-.", rune(before[len(before)-stamp-1])) {
		return "", false
	}
	if strings.Trim(before[len(before)-stamp:], "0123456789") != "" {
		return "", false
	}
	return revision, true
}

// Version is what serverInfo and `belljar version` say.
func Version() string { return Read().Version }

// String is all that can be said of a binary: the first line for programs that
// read words, the second where the commit is known.
func (b Info) String() string {
	text := fmt.Sprintf("belljar %s %s %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
	if b.Revision == "" {
		return text + "commit unknown: the build was not told\n"
	}
	text += "commit " + b.Revision
	if b.Time != "" {
		text += " of " + b.Time
	}
	if b.Dirty {
		text += ", with changes that are in no commit"
	}
	return text + "\n"
}
