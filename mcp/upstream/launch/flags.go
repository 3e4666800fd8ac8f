package launch

import (
	"strings"

	"belljar.dev/mcp/upstream/config"
)

// use is how an option of a launcher is treated.
type use int

const (
	keep      use = iota // pass it to both phases
	install              // pass it to the first phase only: it needs the network
	drop                 // drop it, since belljar sets this itself
	spec                 // it names the package of the command
	also                 // it names a further package
	registry             // it names a registry
	script               // its value is a script of a shell
	shellMode            // the first argument is a script of a shell
	refused              // the option is refused
)

// option is an option of a launcher.
type option struct {
	use   use
	takes bool   // the option has a value
	hint  string // for a refused option: what to write instead
}

// parsed contains the arguments of a launcher by their use.
type parsed struct {
	kept     []config.Text // options for both phases
	first    []config.Text // options for the first phase only
	named    []config.Text // options that name packages or scripts
	shell    []config.Text // options that make the first argument a script
	packages []config.Text // packages to install, at least one
	further  []config.Text
	scripts  []config.Text
	rest     []config.Text // the first argument that is not an option, and the arguments after it
}

// parse sorts the arguments of a launcher by their use, up to the first that is not an
// option. An option that is not in the table is refused: it is not known whether it takes a
// value, and therefore which word is the package.
func (p *Plan) parse(l Launcher, table map[string]option, args []config.Text, hosts *hosts) (parsed, error) {
	var out parsed
	for i := 0; i < len(args); i++ {
		word := value(args[i])
		if word == "--" {
			out.rest = args[i+1:]
			break
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			out.rest = args[i:]
			break
		}
		name, inline, joined := args[i].Cut("=")
		if !joined {
			name = word
		}
		shown := name
		if len(args[i].Variables()) > 0 {
			shown = args[i].String()
		}
		o, known := table[name]
		switch {
		case !known && joined && strings.HasPrefix(name, "--@") && strings.HasSuffix(name, ":registry"):
			o = option{use: registry, takes: true}
		case !known:
			return out, refuse(shown, "remove it, or write it after the package if it is an option of the server", "belljar does not know the option %s of %s, and cannot find out which word after it is the package", shown, l)
		case o.use == refused:
			return out, refuse(name, o.hint, "the option %s of %s is refused", name, l)
		}
		words := args[i : i+1]
		given := inline
		if o.takes && !joined {
			if i+1 == len(args) {
				return out, refuse(name, "", "the option %s of %s needs a value", name, l)
			}
			given, words = args[i+1], args[i:i+2]
			if strings.HasPrefix(name, "--") { // joined, the option means the same in any place
				words = []config.Text{given.With(name + "=")}
			}
			i++
		}
		switch o.use {
		case keep:
			out.kept = append(out.kept, words...)
		case install:
			out.first = append(out.first, words...)
		case registry:
			if err := hosts.url(name, value(given)); err != nil {
				return out, err
			}
			out.kept = append(out.kept, words...)
		case spec:
			out.packages = append(out.packages, given)
			out.named = append(out.named, words...)
		case also:
			out.further = append(out.further, given)
			out.kept = append(out.kept, words...)
		case script:
			out.scripts = append(out.scripts, given)
			out.named = append(out.named, words...)
		case shellMode:
			out.shell = append(out.shell, words...)
		case drop, refused:
		}
	}
	var err error
	out.packages, err = out.specs(l)
	return out, err
}

// specs returns the packages to install: those of options, or otherwise the first argument.
func (in parsed) specs(l Launcher) ([]config.Text, error) {
	switch {
	case len(in.packages) > 0 && len(in.rest) == 0 && len(in.scripts) == 0:
		return nil, refuse("", "write the command after the options", "%s names packages, but no command of these packages", l)
	case len(in.packages) > 0:
		return in.packages, nil
	case len(in.rest) > 0 && len(in.scripts) == 0:
		return in.rest[:1], nil
	}
	return nil, refuse("", "write the package after the options", "%s does not name a package", l)
}

// row contains options of one launcher that are treated in the same way.
type row struct {
	use   use
	takes bool
	names string // names of the options, separated by spaces
	hint  string
}

func options(rows ...row) map[string]option {
	table := map[string]option{}
	for _, r := range rows {
		for name := range strings.FieldsSeq(r.names) {
			table[name] = option{r.use, r.takes, r.hint}
		}
	}
	return table
}
