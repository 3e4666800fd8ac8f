package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"belljar.dev/policies"
	"belljar.dev/policies/shell"
)

// Bounds of what a person is shown.
const (
	maxLines = 40  // most lines of one field of Shown
	maxLine  = 400 // most characters of a line
)

// Shown is what a person sees of a call: each part of what the call does, and never only
// the text as the agent wrote it. Its texts are printable: characters that are invisible,
// or that change how the rest looks, are escaped.
type Shown struct {
	Commands []string `json:"commands,omitempty"` // commands of the script, each with the program that starts it
	Text     []string `json:"text,omitempty"`     // script as the agent wrote it, if it is more than one plain command
	Writes   []string `json:"writes,omitempty"`   // files that the script opens for writing
	Reads    []string `json:"reads,omitempty"`    // files that the script opens for reading
	Sets     []string `json:"sets,omitempty"`     // variables that the call sets, with their values
	Dir      string   `json:"dir,omitempty"`      // directory in which the command begins, as its box sees it
	Stdin    []string `json:"stdin,omitempty"`    // length, digest and first lines of the standard input
	Files    []string `json:"files,omitempty"`    // files that the command names, with their digests
	Paths    []string `json:"paths,omitempty"`    // paths that the call names
	Hosts    []string `json:"hosts,omitempty"`    // hosts and URLs that the call names
	Acts     []string `json:"acts,omitempty"`     // acts of a browser, with the page's name of the control
	Args     []string `json:"args,omitempty"`     // arguments that are not shown in another field
	Grants   []string `json:"grants,omitempty"`   // patterns of commands that a yes lets run without further questions
	Unsure   []string `json:"unsure,omitempty"`   // reasons why the call may do more than is shown
	// whether some of the arguments are left out or shortened; see Desk.Arguments
	Cut     bool   `json:"cut,omitempty"`
	Left    int    `json:"left_out,omitempty"`    // number of further lines that do not fit
	LeftSum string `json:"left_sha256,omitempty"` // digest of the further lines
}

// shown returns the parts of a call that a person sees.
func shown(f policies.Facts, grants []string) Shown {
	var s Shown
	if f.Command != "" {
		s.command(f)
	} else {
		for _, name := range sortedNames(f.Args) {
			text := fmt.Sprintf("%s: %v", name, f.Args[name])
			if !strings.Contains(strings.TrimRight(text, "\n"), "\n") {
				s.add(&s.Args, text)
				continue
			}
			for line := range strings.Lines(text) { // such as the lines of a plan; equal lines are shown once
				s.Cut = s.Cut || slices.Contains(s.Args, strings.TrimRight(line, "\r\n"))
				s.add(&s.Args, strings.TrimRight(line, "\r\n"))
			}
		}
	}
	for _, p := range grants {
		s.add(&s.Grants, p)
	}
	for _, p := range f.Paths {
		s.add(&s.Paths, p)
	}
	for _, h := range slices.Concat(f.URLs, f.Hosts) {
		s.add(&s.Hosts, h)
	}
	for _, a := range f.Acts {
		s.add(&s.Acts, a.String())
		for _, u := range []string{a.On, a.To} { // the line above may be cut before the whole URLs
			if u != "" {
				s.add(&s.Hosts, u)
			}
		}
	}
	if f.Scene != nil && f.Scene.Control != "" {
		s.add(&s.Acts, "control: "+f.Scene.Control)
	}
	return s
}

// apart are the arguments of tools that run commands which Shown has in other fields, or
// which explain the call and change nothing.
var apart = []string{"command", "env", "stdin", "cwd", "description"}

// command adds what a call to a tool that runs commands does.
func (s *Shown) command(f policies.Facts) {
	s.script(f.Command)
	for _, name := range f.Env {
		text, value := "<unknown>", f.Value(name)
		if value.Certainty == shell.Exact {
			text = word(value)
		}
		s.add(&s.Sets, name+"="+text)
		if shell.EffectOf(name, value) != shell.NoEffect {
			s.add(&s.Unsure, shell.SwayDoubt(name))
		}
	}
	s.input(f.Stdin)
	for _, name := range sortedNames(f.Args) {
		if !slices.Contains(apart, name) {
			s.add(&s.Args, fmt.Sprintf("%s: %v", name, f.Args[name]))
		}
	}
	if f.Scene == nil {
		return
	}
	s.Dir = Plain(f.Scene.Dir, maxLine)
	for _, file := range f.Scene.Files {
		line := word(shell.Word{Text: file.Path})
		if file.As != "" {
			line = word(shell.Word{Text: file.As}) + " may be " + line
		}
		s.add(&s.Files, fmt.Sprintf("%s (%d bytes, sha256 %.16s)", line, file.Size, file.Digest))
	}
	for _, why := range f.Scene.Doubts {
		s.add(&s.Unsure, why)
	}
	if n := f.Scene.Tasks; n > 0 {
		s.add(&s.Unsure, fmt.Sprintf("background tasks of this session run (%d), and may change files before the command starts", n))
	}
}

// maxInput is the most lines of the input of a command that are shown.
const maxInput = 10

// input adds the standard input of the command.
func (s *Shown) input(text string) {
	if text == "" {
		return
	}
	s.add(&s.Stdin, fmt.Sprintf("%d bytes, sha256 %.16s", len(text), digestOf(text)))
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxInput {
			s.add(&s.Stdin, "... and more")
			s.Cut = true
			return
		}
		// With its number, each line is unique: equal lines are shown as often as they
		// occur.
		s.add(&s.Stdin, fmt.Sprintf("%d: %s", n, strings.TrimRight(line, "\n")))
	}
}

// script adds the commands of a script. A command that only starts other commands is not
// shown by itself: the other commands are shown with its name.
func (s *Shown) script(text string) {
	script, err := shell.Analyze(text)
	for i := range script.Commands {
		c := &script.Commands[i]
		if !c.Wrapper && len(c.Words) > 0 {
			line := quoted(c.Words)
			if len(c.Via) > 0 {
				line += " (started by " + strings.Join(c.Via, " > ") + ")"
			}
			s.add(&s.Commands, line)
		}
		for _, r := range c.Redirects {
			switch {
			case r.Target == (shell.Word{Text: "/dev/null"}):
			case r.Write:
				s.add(&s.Writes, word(r.Target))
			case r.Read:
				s.add(&s.Reads, word(r.Target))
			}
		}
		for _, a := range c.Assigns {
			s.add(&s.Sets, cmp.Or(a.Name, "a variable")+"="+word(a.Value))
		}
		if c.Opaque != "" {
			s.add(&s.Unsure, quoted(c.Words)+": "+c.Opaque)
		}
	}
	if err != nil {
		s.add(&s.Unsure, "it cannot be read to its end: "+err.Error())
		s.add(&s.Commands, text)
	}
	for _, name := range script.Sways {
		s.add(&s.Unsure, shell.SwayDoubt(name))
	}
	if more := said(script); more != "" {
		s.add(&s.Unsure, "what "+more+" runs may also depend on settings and files that are not shown")
	}
	// The commands do not contain the text of here-documents, and do not show the order.
	if len(s.Commands) != 1 || s.Commands[0] != strings.TrimSpace(text) {
		n := 0
		for line := range strings.Lines(strings.TrimSpace(text)) {
			n++
			s.add(&s.Text, fmt.Sprintf("%d: %s", n, strings.TrimRight(line, "\n")))
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		s.add(&s.Unsure, "it contains characters beyond ASCII, which may look like others")
	}
}

// said returns the programs of a script whose words may not say all that they do, although
// these programs are not known to run their input.
func said(script shell.Script) string {
	var all []string
	for i := range script.Commands {
		c := &script.Commands[i]
		if c.Wrapper || c.Opaque != "" || len(c.Words) == 0 || c.Words[0].Certainty != shell.Exact {
			continue
		}
		name := c.Words[0].Text
		if !shell.Literal(name) && !shell.OfShell(name) && !slices.Contains(script.Functions, name) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// add adds a line unless the field already contains it. A line that is too long is cut,
// with a note about the cut.
func (s *Shown) add(to *[]string, line string) {
	whole := line
	if line = Plain(line, maxLine); Plain(whole, maxLine+1) != line {
		s.Cut = true
		line = fmt.Sprintf("%s (cut: %d bytes, sha256 %.16s)", line, len(whole), digestOf(whole))
	}
	switch {
	case slices.Contains(*to, line):
	case len(*to) >= maxLines:
		s.Cut = true
		s.Left++
		s.LeftSum = digestOf(s.LeftSum + "\n" + whole)
	default:
		*to = append(*to, line)
	}
}

// Lines returns the shown parts for a terminal or a form, each line with its heading.
func (s Shown) Lines() []string {
	var all, dir []string
	if s.Dir != "" {
		dir = []string{s.Dir}
	}
	for _, group := range []struct {
		head  string
		lines []string
	}{
		{"runs", s.Commands},
		{"text", s.Text},
		{"writes", s.Writes},
		{"reads", s.Reads},
		{"sets", s.Sets},
		{"in", dir},
		{"stdin", s.Stdin},
		{"file", s.Files},
		{"does", s.Acts},
		{"names", s.Paths},
		{"reaches", s.Hosts},
		{"with", s.Args},
		{"grants", s.Grants},
		{"unsure", s.Unsure},
	} {
		for _, line := range group.lines {
			all = append(all, fmt.Sprintf("%-8s %s", group.head+":", line))
		}
	}
	if s.Left > 0 {
		all = append(all, fmt.Sprintf("and %d more lines that are not shown (sha256 %.16s), which is a lot for one call", s.Left, s.LeftSum))
	}
	return all
}

// quoted returns words in the form in which a shell reads them.
func quoted(words []shell.Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = word(w)
	}
	return strings.Join(texts, " ")
}

// word returns one word in this form, with a mark if its value is not known.
func word(w shell.Word) string {
	text := w.Text
	if text == "" && w.Certainty == shell.Exact || strings.ContainsAny(text, " \t\n\"'`$;|&<>()*?[]#~\\") {
		text = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	switch w.Certainty {
	case shell.One, shell.Any:
		return text + "<unknown>"
	case shell.Exact, shell.Home:
	}
	return text
}

// padding is the most spaces in a row that are shown unchanged.
const padding = 4

// Plain is policies.Clip that also replaces long runs of spaces by their number, so that
// they cannot push text out of sight.
func Plain(s string, most int) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		n := len(s[i:]) - len(strings.TrimLeft(s[i:], " "))
		if n > padding {
			fmt.Fprintf(&b, "<%d spaces>", n)
			i += n
			continue
		}
		if n > 0 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		next := strings.IndexByte(s[i:], ' ')
		if next < 0 {
			next = len(s) - i
		}
		b.WriteString(s[i : i+next])
		i += next
	}
	return policies.Clip(b.String(), most)
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
