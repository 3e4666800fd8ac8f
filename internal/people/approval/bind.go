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

// bound is what an answer holds for. Its JSON is hashed: a call that differs in
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
	// The acts of a browser, each with the control that it is on.
	Acts    []policies.Act `json:"acts,omitempty"`
	Control string         `json:"control,omitempty"`

	// The variables and the input of the command, the directory where it begins, and the
	// contents of the files that it names.
	Env    map[string]string    `json:"env,omitempty"`
	Stdin  string               `json:"stdin,omitempty"`
	Dir    string               `json:"dir,omitempty"`
	Files  []policies.SceneFile `json:"files,omitempty"`
	Doubts []string             `json:"doubts,omitempty"`
}

// bind makes the digest of a call, and that of the calls that look the same,
// which is empty where a yes can be for this one only.
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
	delete(args, "description") // says what for, and changes nothing
	if f.Command != "" {
		commands, plain := canonical(f.Command)
		if !plain || swayed(f) {
			return digest, "", nil
		}
		args["command"] = commands
	}
	// The contents of files do not change the meaning of programs that are remembered.
	b.Args, b.Files = args, nil
	canon, err = hash("alike", b)
	return digest, canon, err
}

// hash is the SHA-256 of a JSON text: encoding/json sorts the members of maps.
func hash(kind string, b bound) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("hash the arguments of %s: %w", b.Tool, err)
	}
	if len(text) > maxArgument {
		return "", fmt.Errorf("hash the arguments of %s: %d bytes, and %d are taken", b.Tool, len(text), maxArgument)
	}
	sum := sha256.Sum256(append([]byte(kind+"\x00"), text...))
	return hex.EncodeToString(sum[:]), nil
}

// digestOf is the SHA-256 of a text; empty for an empty text.
func digestOf(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// canonCommand is a command in the form in which two spellings are equal.
type canonCommand struct {
	Joint string      `json:"joint,omitempty"` // to the command before
	Argv  []string    `json:"argv"`
	Sets  [][2]string `json:"sets,omitempty"`
}

// canonical is the commands of a script, and whether a yes to them may be one
// to the next script with the same commands. It may not if anything of the script
// is only known when it runs, or depends on more than its words: on a file that
// is opened, on what an interpreter reads, on the program that another starts.
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
			return nil, false // a loop or a condition is another call than its commands one by one
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

// joints are what may stand between two commands of a script that is
// remembered.
var joints = []string{";", "&&", "||", "|", "\n"}

// swayed reports whether variables of the call, or files in the place of the
// system's programs, say what runs, or whether that could not be seen: such a file
// may be a link.
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
