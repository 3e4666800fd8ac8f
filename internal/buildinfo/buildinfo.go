package buildinfo

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	_ "unsafe" // for go:linkname
)

// init answers `belljar --version`, which scripts and installers use to find belljar. It
// runs before most packages are initialised, which takes most of the time of a command that
// does nothing: Go initialises packages with few imports first, and then in the order of
// their names. Therefore this package imports few others, and not runtime/debug, whose
// initialisation comes after nearly all packages. If the version cannot be written, init
// leaves the command to main, which reports the error.
func init() {
	if len(os.Args) != 2 || os.Args[1] != "--version" {
		return
	}
	text := Read().String()
	// os.Stdout would end the process (SIGPIPE) if nothing reads the output.
	if n, err := syscall.Write(1, []byte(text)); n == len(text) && err == nil {
		os.Exit(0)
	}
}

// Release is the version that is developed in this source.
const Release = "0.1.0"

// Info describes this binary. Its JSON is an interface: keys may be added, and no key is
// removed or changes its meaning.
type Info struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit; empty if the build did not know it
	Time     string `json:"time,omitempty"`     // time of the commit, in the form of RFC 3339
	Dirty    bool   `json:"dirty"`              // whether files differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// modinfo returns the text that debug.ReadBuildInfo parses. The runtime provides this function
// for runtime/debug. Without the file modinfo.s, the compiler would require a body here.
//
//go:linkname modinfo runtime/debug.modinfo
func modinfo() string

// Read returns the description of this binary.
func Read() Info {
	// The linker puts 16 bytes before and after the text, by which other programs find it.
	const around = 16
	text := modinfo()
	if len(text) < 2*around {
		return buildOf("")
	}
	return buildOf(text[around : len(text)-around])
}

// buildOf parses the build information that the linker recorded: of the working tree for
// `go build`, and of the module for `go install belljar.dev/cmd/belljar@VERSION`. It uses only
// these two kinds of lines (debug.BuildInfo.String):
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
		// This is not a release: the version is the next release, with the commit as build
		// metadata (semver 10).
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

// pseudoVersion returns the commit from a version that Go made from a commit, for example
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

// Version returns the version in serverInfo and in `belljar version`.
func Version() string { return Read().Version }

// String returns the description of the binary: one line for programs that read words, and
// one line about the commit.
func (b Info) String() string {
	text := fmt.Sprintf("belljar %s %s %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
	if b.Revision == "" {
		return text + "commit unknown: the build did not record it\n"
	}
	text += "commit " + b.Revision
	if b.Time != "" {
		text += " of " + b.Time
	}
	if b.Dirty {
		text += ", with changes that are not committed"
	}
	return text + "\n"
}
