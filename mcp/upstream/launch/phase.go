package launch

import (
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp/upstream/config"
)

// Launcher is a program that fetches a package and runs it.
type Launcher string

// The launchers. Direct stands for no launcher: the command is the server.
const (
	Direct Launcher = ""
	Npx    Launcher = "npx"
	Bunx   Launcher = "bunx"
	Pnpm   Launcher = "pnpm dlx"
	Uvx    Launcher = "uvx"
	Pipx   Launcher = "pipx run"
	Docker Launcher = "docker run"
)

// Cache is the access of a phase to the directory of caches.
type Cache int

// The kinds of access to the caches.
const (
	CacheReadOnly Cache = iota
	CacheScratch        // the phase may write; its changes are discarded at its end
	CacheKept           // the phase may write; its changes are kept
)

// Dirs contains directories as the box sees them. All are absolute and exist before a phase
// begins; their subdirectories need not exist.
type Dirs struct {
	Home  string // home directory of this server alone, writable
	Cache string // caches of this tenant and server; Phase.Cache is the access to it
	Temp  string // directory where programs can be written and executed; launchers need it
}

// Plan describes how a server is started.
type Plan struct {
	Launcher Launcher
	Install  *Phase // nil if there is nothing to install. It runs in Dirs.Home, never among files of agents.
	Run      Phase
	Image    string  // image for the root of the box; empty for the usual root
	Mounts   []Mount // mounts of a docker run
	Packages []string
	Cwd      config.Text
	EnvFile  config.Text // file that the caller reads. Variables of Run take precedence over it. Install never gets it.
	Notes    []Note
	program  config.Text
	args     []config.Text
	env      []config.Variable
}

// Phase is one run of a program in a box.
type Phase struct {
	Argv  []string // arguments with the values of variables; for logs and people use Shown
	Shown []string
	Env   []config.Variable // the complete environment: nothing is inherited
	Hosts []string          // registries to reach; nil: only hosts that the policy gives the server
	Cache Cache

	// Entrypoint reports that Argv does not contain the program: the image's entry point
	// comes before Argv. If Argv is empty, the image's command comes after the entry point.
	Entrypoint bool

	texts []config.Text // Argv with its references
}

// Secrets returns the names of the secrets in the environment of a phase.
func (p Phase) Secrets() (names []string) {
	for _, v := range p.Env {
		for _, name := range v.Value.Secrets() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Mount is a directory or file of the host that an entry wants to see in its box. The
// caller checks Source against the grant.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Note is something that a person should know about an entry that runs in spite of it.
type Note struct{ Message, Hint string }

// Refusal is the error for an entry that cannot be started as it is written.
type Refusal struct {
	Flag    string // option that is refused; may be empty
	Message string
	Hint    string // what to write instead
}

// Error returns the refusal in one line.
func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + "; " + r.Hint
}

func refuse(flag, hint, format string, args ...any) *Refusal {
	return &Refusal{Flag: inLine(flag), Message: inLine(fmt.Sprintf(format, args...)), Hint: hint}
}

// inLine returns a text that may contain words of an entry as one line, safe for a
// terminal.
func inLine(s string) string { return printable.Line(s, 300) }

func (p *Plan) note(hint, format string, args ...any) {
	p.Notes = append(p.Notes, Note{inLine(fmt.Sprintf(format, args...)), hint})
}

// base returns the name of a program without its directory and without the suffixes of
// Windows.
func base(t config.Text) string {
	name := value(t)
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	for _, suffix := range []string{".exe", ".cmd", ".bat"} {
		if len(name) > len(suffix) && strings.EqualFold(name[len(name)-len(suffix):], suffix) {
			name = name[:len(name)-len(suffix)]
		}
	}
	return name
}

// beside returns another program in the directory of a program.
func beside(program config.Text, name string) config.Text {
	path := value(program)
	return config.Literal(path[:strings.LastIndexByte(path, '/')+1] + name)
}

// value returns the value of a text without secrets, and the shown form of a text with
// secrets.
func value(t config.Text) string {
	if v, ok := t.Plain(); ok {
		return v
	}
	return t.String()
}

// phase returns a phase that runs a command.
func phase(argv ...config.Text) Phase {
	p := Phase{texts: argv}
	for _, t := range argv {
		p.Argv = append(p.Argv, value(t))
		p.Shown = append(p.Shown, t.String())
	}
	return p
}

func literals(all ...string) (texts []config.Text) {
	for _, s := range all {
		texts = append(texts, config.Literal(s))
	}
	return texts
}
