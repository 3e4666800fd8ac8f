package launch

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"belljar.dev/mcp/upstream/config"
)

// shells contains shells and interpreters, with the options whose value is a script.
var shells = sync.OnceValue(func() map[string][]string {
	return map[string][]string{
		"sh": {"c"}, "bash": {"c"}, "dash": {"c"}, "ash": {"c"}, "zsh": {"c"}, "ksh": {"c"}, "fish": {"c"},
		"busybox": {"c"}, "cmd": {"/c", "/k"}, "powershell": {"-command", "-c", "-encodedcommand"}, "pwsh": {"-command", "-c", "-encodedcommand"}, "php": {"-r"},
		"node": {"-e", "--eval", "-p", "--print"}, "python": {"-c"}, "python3": {"-c"}, "perl": {"-e"}, "ruby": {"-e"},
	}
})

var downloads = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(?:curl|wget|fetch|iwr|Invoke-WebRequest)\b`) })

// lint adds notes about commands that run in a box, but that a person should look at.
func (p *Plan) lint() {
	for _, t := range p.args {
		for _, name := range t.Variables() {
			if p.Launcher != Docker && login().MatchString(name) {
				p.note("put it into env, if the server can read it from there", "the value of ${%s} is on the command line, where every process in the box can read it", name)
			}
		}
	}
	if p.Launcher != Direct {
		return
	}
	for i, t := range p.args {
		if inlineCode(base(p.program), value(t)) && i+1 < len(p.args) {
			p.script(base(p.program), p.args[i+1])
			return
		}
	}
}

// inlineCode reports whether the value of a shell's or interpreter's option is code. Shells
// allow joined letters (bash -lc).
func inlineCode(program, option string) bool {
	options, option := shells()[program], strings.ToLower(option)
	if len(options) == 1 && len(options[0]) == 1 {
		return len(option) > 1 && option[0] == '-' && option[1] != '-' && strings.Contains(option, options[0])
	}
	return slices.Contains(options, option)
}

// scripts adds notes about the scripts that a launcher runs.
func (p *Plan) scripts(in parsed) {
	for _, t := range in.scripts {
		p.script(string(p.Launcher), t)
	}
}

func (p *Plan) script(program string, t config.Text) {
	const hint = "put the script into a file, or start the program itself: then belljar notices if it changes"
	if downloads().MatchString(value(t)) {
		p.note(hint, "%s runs a script of the entry that downloads something: the pin covers the script, but not what it downloads", program)
		return
	}
	p.note(hint, "%s runs a script of the entry: the pin covers its text, but not the programs that it starts", program)
}
