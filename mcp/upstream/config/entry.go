package config

import "slices"

// Kind is the way in which a server is reached.
type Kind string

// The kinds of servers.
const (
	Stdio Kind = "stdio" // a command that is started, and communicates over its standard streams
	HTTP  Kind = "http"  // a URL that serves Streamable HTTP
	SSE   Kind = "sse"   // a URL that serves the older transport with two addresses
)

// Entry is one server of a file, in the same shape for all kinds of files. Texts are as in
// the file until Expand has filled in the values that they refer to.
type Entry struct {
	Name    string
	Kind    Kind // empty if the entry is disabled and has neither a command nor a URL
	Command Text
	Args    []Text
	Env     []Variable // variables in the order of the file
	EnvFile Text       // path of a file with further variables; may be empty
	Cwd     Text
	URL     Text
	Headers []Variable
	Enabled bool
	Prefix  string // prefix of the names of its tools: letters, digits, "_" and "-"
	Tools   Tools
	Sandbox *Sandbox // nil if the file has no such keys
	Inputs  []Input  // inputs that its texts refer to
	Extra   []Extra  // keys without effect, byte for byte
	Source  Source
}

// Variable is an environment variable, or a header.
type Variable struct {
	Name  string
	Value Text
}

// Tools lists the wanted tools of a server, by their own names. It can only narrow what the
// policy allows.
type Tools struct {
	All   bool     // the file has no list of wanted tools
	Allow []string // wanted tools, unless All
	Deny  []string // tools that are never wanted
}

// Has reports whether a tool is wanted.
func (t Tools) Has(name string) bool {
	return (t.All || slices.Contains(t.Allow, name)) && !slices.Contains(t.Deny, name)
}

// Sandbox contains the values of VS Code's keys sandboxEnabled and sandbox. Belljar always
// uses a box, so these values can only narrow what the policy allows. Unlike in VS Code,
// they do not approve calls of the server.
type Sandbox struct {
	Enabled bool // if false, VS Code ignores the lists; belljar uses them to deny all the same

	AllowedDomains []string // nil if the file has no such list
	DeniedDomains  []string
	AllowWrite     []Text
	DenyRead       []Text
	DenyWrite      []Text
}

// Input is a question that VS Code asks before it starts a server.
type Input struct {
	ID          string
	Description string
	Default     string
	HasDefault  bool
	Password    bool // the answer is the secret with the name ID
}

// Extra is a key of an entry without effect in belljar.
type Extra struct {
	Key   string
	Text  string // the value as in the file; in TOML and YAML the key with its value
	Known bool   // some client has this key, so it is not a mistake
}

// Source is the origin of an entry.
type Source struct {
	File    string
	Digest  string // digest of the whole file, see Digest
	Line    int
	Col     int
	Trusted bool     // false if agents can write the file, so that a person must agree to Digest
	Hides   []Source // sources of entries with the same name in lower layers, the nearest first
}
