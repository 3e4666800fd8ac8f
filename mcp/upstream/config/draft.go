package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Draft is an entry as Add writes it into a file, with the keys that Read knows.
type Draft struct {
	Name     string            `json:"-"`
	Type     Kind              `json:"type,omitempty"` // kind of a remote server
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	EnvFile  string            `json:"envFile,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	URL      string            `json:"url,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Disabled bool              `json:"disabled,omitempty"`
	Prefix   string            `json:"tools_prefix,omitempty"`
	Allow    []string          `json:"tools,omitempty"`
	Deny     []string          `json:"disabled_tools,omitempty"`
}

// Secret is a value that NewDraft has taken out of an entry. The Draft refers to the Secret
// by its name.
type Secret struct {
	Name  string
	Of    string // the part of the entry that it was in, for example "the variable TOKEN"
	Value string // empty for an input that VS Code would have asked a person for
}

// NewDraft converts an entry of another file to a draft, and returns the secrets that the
// entry contained. Keys that belljar does not know are left out. notes names these keys,
// and texts that may be a secret and cannot be taken out.
func NewDraft(e Entry) (d Draft, secrets []Secret, notes []string) {
	m := &mover{entry: e}
	d = Draft{
		Name: e.Name, Command: m.text(e.Command), EnvFile: m.text(e.EnvFile), Cwd: m.text(e.Cwd), URL: m.text(e.URL),
		Disabled: !e.Enabled, Prefix: e.Prefix, Deny: e.Tools.Deny,
		Env: m.variables("the variable", e.Env), Headers: m.variables("the header", e.Headers),
	}
	if e.Kind != Stdio {
		d.Type = e.Kind
	}
	if d.Prefix == e.Name {
		d.Prefix = ""
	}
	if !e.Tools.All {
		d.Allow = e.Tools.Allow
		if len(d.Allow) == 0 {
			m.note("it allows no tool, and is therefore switched off")
			d.Disabled = true
		}
	}
	for i, a := range e.Args {
		text := m.text(a)
		if looksSecret(text) || i > 0 && optionOfSecret(d.Args[i-1]) && !strings.HasPrefix(text, "-") || assignsSecret(text) {
			m.note("argument %d may be a secret, and every process of its box can read arguments: use a variable, if the server knows one", i+1)
		}
		d.Args = append(d.Args, text)
	}
	if e.Sandbox != nil {
		m.note("the rules of its sandbox are left out: write them into the policy as its profile")
	}
	for _, x := range e.Extra {
		m.note("the key %s is left out", quoted(x.Key))
	}
	return d, m.secrets, m.notes
}

// mover takes secrets out of an entry.
type mover struct {
	entry   Entry
	secrets []Secret
	notes   []string
}

func (m *mover) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// text returns a text in the form for the new file.
func (m *mover) text(t Text) string {
	var b strings.Builder
	for _, p := range t.pieces {
		switch {
		case p.ref == literal:
			b.WriteString(p.text)
		case p.ref == input:
			b.WriteString(m.input(p.name))
		case p.hasDefault:
			b.WriteString("${" + p.name + ":-" + p.fallback + "}")
		default:
			b.WriteString(p.written())
		}
	}
	return b.String()
}

// input returns the text that replaces a question of VS Code.
func (m *mover) input(id string) string {
	for _, in := range m.entry.Inputs {
		if in.ID == id && in.HasDefault && !in.Password {
			return in.Default
		}
	}
	return m.move("the input "+quoted(id), id, "")
}

// move keeps a secret, and returns the reference to it.
func (m *mover) move(of, name, value string) string {
	name = strings.Trim(odd().ReplaceAllString(m.entry.Name+"-"+name, "-"), "-")
	s := Secret{Name: strings.ToLower(name), Of: of, Value: value}
	for n := 2; slices.ContainsFunc(m.secrets, func(o Secret) bool { return o.Name == s.Name && (o.Of != s.Of || o.Value != s.Value) }); n++ {
		s.Name = fmt.Sprintf("%s-%d", strings.ToLower(name), n)
	}
	if !slices.Contains(m.secrets, s) {
		m.secrets = append(m.secrets, s)
	}
	return "${secret:" + s.Name + "}"
}

// variables returns variables or headers in the form for the new file.
func (m *mover) variables(what string, all []Variable) map[string]string {
	to := make(map[string]string, len(all))
	for _, v := range all {
		text := m.text(v.Value)
		plain := !slices.ContainsFunc(v.Value.pieces, func(p piece) bool { return p.ref != literal })
		if plain && text != "" && (namesSecret(v.Name) || looksSecret(text)) {
			scheme := ""
			// a scheme such as Bearer or Basic stays
			if at := strings.IndexByte(text, ' '); at > 0 && what == "the header" {
				scheme, text = text[:at+1], text[at+1:]
			}
			text = scheme + m.move(what+" "+v.Name, v.Name, text)
		}
		to[v.Name] = text
	}
	return to
}

// Signs of a secret: the name of a variable or of an option, or the beginning of a value.
var (
	odd        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_-]+`) })
	secretName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(token|secret|passw|passphrase|credential|cookie|authorization|api[-_]?key|access[-_]?key|private[-_]?key|auth[-_]?key|(^|[-_])(key|pat|pwd|pass|dsn)$)`)
	})
	secretValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(Bearer |Basic )?(sk-|pk-|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|eyJ|npm_|hf_|-----BEGIN)`)
	})
)

func namesSecret(name string) bool { return secretName().MatchString(name) }

func looksSecret(value string) bool { return secretValue().MatchString(value) }

// optionOfSecret reports whether an argument is an option whose value is the next argument
// and may be a secret.
func optionOfSecret(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && namesSecret(strings.TrimLeft(arg, "-"))
}

// assignsSecret reports whether an argument is an option with a value that may be a secret.
func assignsSecret(arg string) bool {
	name, value, found := strings.Cut(arg, "=")
	return found && value != "" && !strings.Contains(value, "${") && strings.HasPrefix(name, "-") && namesSecret(strings.TrimLeft(name, "-"))
}
