package config

import "slices"

// Kind is how a server is reached.
type Kind string

// The kinds of servers.
const (
	Stdio Kind = "stdio" // a command that is started, and speaks over its standard streams
	HTTP  Kind = "http"  // a URL that speaks Streamable HTTP
	SSE   Kind = "sse"   // a URL that speaks the older transport of two addresses
)

// Entry is one server of a file, in one shape whatever the file looked like. Texts are
// as the file has them until Expand has filled in what they refer to.
type Entry struct {
	Name    string
	Kind    Kind // empty where the entry is switched off and names neither a command nor a URL
	Command Text
	Args    []Text
	Env     []Variable // in the order of the file
	EnvFile Text       // a file of further variables; empty for none
	Cwd     Text
	URL     Text
	Headers []Variable
	Enabled bool
	Prefix  string // of the names of its tools: letters, digits, "_" and "-"
	Tools   Tools
	Sandbox *Sandbox // nil where the file has no such keys
	Inputs  []Input  // those that its texts refer to
	Extra   []Extra  // keys without effect, byte for byte
	Source  Source
}

// Variable is a variable of the environment, or a header.
type Variable struct {
	Name  string
	Value Text
}

// Tools says which tools of a server are wanted, by their own names. It only narrows:
// what the policy does not allow stays away.
type Tools struct {
	All   bool     // no list of wanted tools was given
	Allow []string // the wanted ones, unless All
	Deny  []string // never these
}

// Has reports whether a tool is wanted.
func (t Tools) Has(name string) bool {
	return (t.All || slices.Contains(t.Allow, name)) && !slices.Contains(t.Deny, name)
}

// Sandbox is what VS Code's keys sandboxEnabled and sandbox say. Belljar's box is always
// there, so all of it can only narrow what the policy gives; unlike in VS Code, calls of
// such a server are not approved by it.
type Sandbox struct {
	Enabled bool // false: the lists have no effect in VS Code, and deny here all the same

	AllowedDomains []string // nil where the file does not say
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
	Password    bool // the answer is a secret: the one of the name ID
}

// Extra is a key of an entry without an effect here.
type Extra struct {
	Key   string
	Text  string // the value, or in TOML and YAML the key with its value, as the file has it
	Known bool   // a key of some client, and not a mistake
}

// Source is where an entry comes from.
type Source struct {
	File    string
	Digest  string // of the whole file: Digest
	Line    int
	Col     int
	Trusted bool     // false: agents can write the file, so a person has to agree to Digest
	Hides   []Source // of entries of the same name in layers below, the nearest first
}
