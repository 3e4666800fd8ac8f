package launch

import (
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp/upstream/config"
)

// Launcher is a program that gets a package and runs it.
type Launcher string

// The launchers. Direct is the absence of one: the command is the server.
const (
	Direct Launcher = ""
	Npx    Launcher = "npx"
	Bunx   Launcher = "bunx"
	Pnpm   Launcher = "pnpm dlx"
	Uvx    Launcher = "uvx"
	Pipx   Launcher = "pipx run"
	Docker Launcher = "docker run"
)

// Cache is what a phase may do with the directory of caches.
type Cache int

// The ways in which a phase has the caches.
const (
	CacheReadOnly Cache = iota
	CacheScratch        // it may write there, and what it writes is thrown away at its end
	CacheKept           // it may write there, and that stays
)

// Dirs are directories as the box sees them. All are absolute and exist before a phase
// begins; what is below them need not.
type Dirs struct {
	Home  string // of this server alone, writable
	Cache string // of this tenant and server; each Phase says how it may be used
	Temp  string // where programs can be written and executed; launchers need that
}

// Plan is how a server is started.
type Plan struct {
	Launcher Launcher
	Install  *Phase // nil: there is nothing to install; runs in Dirs.Home, never among files of agents
	Run      Phase
	Image    string  // the root of the box; empty: the usual one
	Mounts   []Mount // what docker would have mounted
	Packages []string
	Cwd      config.Text
	EnvFile  config.Text // to be read by the caller, below the variables of Run; never for Install
	Notes    []Note
	program  config.Text
	args     []config.Text
	env      []config.Variable
}

// Phase is one start of a program in a box.
type Phase struct {
	Argv  []string // with the values of variables; Shown is for logs and people
	Shown []string
	Env   []config.Variable // all of it: nothing is inherited
	Hosts []string          // registries; nil: only hosts that the policy gives the server
	Cache Cache

	// Entrypoint says that Argv lacks the program: the image's entry point comes first,
	// and where Argv is empty, its command behind that.
	Entrypoint bool

	texts []config.Text // Argv with what its words refer to
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
// caller compares Source with what the grant has.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Note is something that a person should know of an entry that runs all the same.
type Note struct{ Message, Hint string }

// Refusal is why an entry cannot be started as it is written.
type Refusal struct {
	Flag    string // the option it is about; may be empty
	Message string
	Hint    string // what to write instead
}

// Error is the refusal in one line.
func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + "; " + r.Hint
}

func refuse(flag, hint, format string, args ...any) *Refusal {
	return &Refusal{Flag: inLine(flag), Message: inLine(fmt.Sprintf(format, args...)), Hint: hint}
}

// inLine is a text that may have words of an entry in it, as a line on a terminal.
func inLine(s string) string { return printable.Line(s, 300) }

func (p *Plan) note(hint, format string, args ...any) {
	p.Notes = append(p.Notes, Note{inLine(fmt.Sprintf(format, args...)), hint})
}

// base is the name of a program without its directory and what Windows adds.
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

// beside is another program of the directory of one.
func beside(program config.Text, name string) config.Text {
	path := value(program)
	return config.Literal(path[:strings.LastIndexByte(path, '/')+1] + name)
}

// value is the value of a text without secrets, and its shown form of others.
func value(t config.Text) string {
	if v, ok := t.Plain(); ok {
		return v
	}
	return t.String()
}

// phase makes a phase of a command.
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
