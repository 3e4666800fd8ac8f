package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/policies/shell"
)

// bound contains all that an answer is bound to. Its JSON is hashed: a call that differs in
// any of these fields is another question.
type bound struct {
	Tenant    string `json:"tenant"`
	Principal string `json:"principal"`
	Place     string `json:"place"`
	Tool      string `json:"tool"`
	Upstream  string `json:"upstream,omitempty"`
	Profile   string `json:"profile"`
	Rule      string `json:"rule"`
	Args      any    `json:"args"`
	// The acts of a browser, and the control on which they act.
	Acts    []policies.Act `json:"acts,omitempty"`
	Control string         `json:"control,omitempty"`

	// The variables and the input of the command, the directory in which it begins, and the
	// contents of the files that it names.
	Env    map[string]string    `json:"env,omitempty"`
	Stdin  string               `json:"stdin,omitempty"`
	Dir    string               `json:"dir,omitempty"`
	Files  []policies.SceneFile `json:"files,omitempty"`
	Doubts []string             `json:"doubts,omitempty"`
}

// bind returns the digest of a call, and the digest of all calls that look the same. The
// second is empty if a yes can be for this call only.
func bind(place string, r Request) (digest, canon string, err error) {
	f := r.Facts
	b := bound{
		Tenant: f.Tenant, Principal: r.Principal, Place: place, Tool: f.Tool, Upstream: f.Upstream,
		Profile: r.Decision.Offers().Profile(), Rule: r.Decision.Rule, Args: f.Args,
		Acts: f.Acts, Env: f.Values, Stdin: digestOf(f.Stdin),
	}
	if f.Scene != nil {
		b.Control = f.Scene.Control
		b.Dir, b.Files, b.Doubts = f.Scene.Dir, f.Scene.Files, f.Scene.Doubts
	}
	if digest, err = hash("call", b); err != nil {
		return "", "", err
	}
	args := maps.Clone(f.Args)
	delete(args, "description") // it only explains the call, and changes nothing
	if f.Command != "" {
		commands, plain := canonical(f.Command)
		if !plain || swayed(f) {
			return digest, "", nil
		}
		args["command"] = commands
	}
	// The programs for which a yes can be remembered mean the same whatever the files
	// contain.
	b.Args, b.Files = args, nil
	canon, err = hash("alike", b)
	return digest, canon, err
}

// hash returns the SHA-256 of the JSON of b: encoding/json sorts the members of maps.
func hash(kind string, b bound) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("hash the arguments of %s: %w", b.Tool, err)
	}
	if len(text) > maxArgument {
		return "", fmt.Errorf("hash the arguments of %s: %d bytes, at most %d are allowed", b.Tool, len(text), maxArgument)
	}
	sum := sha256.Sum256(append([]byte(kind+"\x00"), text...))
	return hex.EncodeToString(sum[:]), nil
}

// digestOf returns the SHA-256 of a text, or an empty text for an empty text.
func digestOf(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// canonCommand is a command in a form that is equal for all its spellings.
type canonCommand struct {
	Joint string      `json:"joint,omitempty"` // operator between this command and the one before
	Argv  []string    `json:"argv"`
	Sets  [][2]string `json:"sets,omitempty"`
}

// canonical returns the commands of a script. plain reports whether a yes can also be good
// for the next script with the same commands. It cannot if a part of the script is only
// known when it runs, or depends on more than its words: on a file that is opened, on the
// input of an interpreter, or on a program that another program starts.
func canonical(text string) (commands []canonCommand, plain bool) {
	s, err := shell.Analyze(text)
	if err != nil || strings.ContainsAny(text, "<>(){}`$!#\\") || len(s.Functions)+len(s.Aliases)+len(s.Sets) > 0 || len(s.Commands) == 0 {
		return nil, false
	}
	end := 0
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.Wrapper || c.Opaque != "" || len(c.Via)+len(c.Redirects) > 0 || len(c.Words) == 0 || !shell.Literal(c.Words[0].Text) || c.Start < end || c.End < c.Start {
			return nil, false
		}
		one := canonCommand{Joint: strings.Trim(text[end:c.Start], " \t")}
		if first := i == 0; first && one.Joint != "" || !first && !slices.Contains(joints, one.Joint) {
			return nil, false // a loop or a condition does not run its commands one after the other
		}
		end = c.End
		for _, w := range c.Words {
			if w.Certainty != shell.Exact {
				return nil, false
			}
			one.Argv = append(one.Argv, w.Text)
		}
		for _, a := range c.Assigns {
			if a.Name == "" || a.Value.Certainty != shell.Exact {
				return nil, false
			}
			one.Sets = append(one.Sets, [2]string{a.Name, a.Value.Text})
		}
		commands = append(commands, one)
	}
	return commands, strings.Trim(text[end:], " \t\n") == ""
}

// joints are the operators that may stand between two commands of a script to which a yes
// is remembered.
var joints = []string{";", "&&", "||", "|", "\n"}

// swayed reports whether variables of the call, or files in the place of the system's
// programs, decide what runs. It also returns true if this could not be checked, for
// example because such a file is a link.
func swayed(f policies.Facts) bool {
	for _, name := range f.Env {
		if shell.EffectOf(name, f.Value(name)) != shell.NoEffect {
			return true
		}
	}
	if f.Scene == nil {
		return false
	}
	return len(f.Scene.Doubts) > 0 || slices.ContainsFunc(f.Scene.Files, func(s policies.SceneFile) bool { return s.As != "" })
}
