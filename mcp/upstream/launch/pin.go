package launch

import (
	"slices"
	"strings"

	"belljar.dev/mcp/upstream/config"
)

// Pinned contains what a pin compares: if any value differs, something else would run under
// the name that a person agreed to.
//
// Its texts contain no values of variables or secrets. A secret is a placeholder, so a new
// token changes nothing; a variable is a digest of its value.
type Pinned struct {
	Argv     []string // command and arguments of the entry; only the URL for a remote server
	Env      []string // sorted: NAME=VALUE for variables that choose code, otherwise NAME
	Packages []string
	Image    string
	Mounts   []string

	// Files are the files that the caller digests, as the box sees them; relative ones are
	// below the entry's directory. The first is the program, which may be a name to look up
	// in PATH.
	Files []string

	// Locks are patterns below the directory of caches. They match the files in which the
	// launcher records the resolved packages, with their digests.
	Locks []string
}

// Pin returns the pinned values of an entry and its plan. The plan is nil for an entry with
// a URL.
func Pin(e config.Entry, p *Plan) Pinned {
	if p == nil {
		is := Pinned{Argv: []string{e.URL.Pinned()}}
		for _, v := range e.Headers { // only names, since the values are logins
			is.Env = append(is.Env, "header "+v.Name)
		}
		slices.Sort(is.Env)
		return is
	}
	is := Pinned{Argv: []string{e.Command.Pinned()}, Packages: p.Packages, Image: p.Image, Locks: locksOf(p.Launcher)}
	for _, t := range e.Args {
		is.Argv = append(is.Argv, t.Pinned())
	}
	for _, v := range e.Env {
		line := v.Name
		if choosesCode(v.Name) {
			line += "=" + v.Value.Pinned()
		}
		is.Env = append(is.Env, line)
	}
	slices.Sort(is.Env)
	for _, m := range p.Mounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		is.Mounts = append(is.Mounts, m.Source+":"+m.Target+":"+mode)
	}
	if p.Launcher == Direct {
		is.Files = append(is.Files, value(p.program))
		if file := scriptFile(base(p.program), p.args); file != "" {
			is.Files = append(is.Files, file)
		}
	}
	for _, s := range p.Packages {
		if localPath(s) {
			is.Files = append(is.Files, strings.TrimPrefix(s, "file:"))
		}
	}
	return is
}

// locksOf returns the patterns of the files in which a launcher records the resolved
// packages.
func locksOf(l Launcher) []string {
	switch l {
	case Npx:
		return []string{"npm/_npx/*/package-lock.json"}
	case Bunx:
		return []string{"bun/cache/.bunx-*/*/bun.lock", "bun/cache/.bunx-*/*/*/bun.lock"}
	case Pnpm:
		return []string{"pnpm-cache/pnpm/dlx/*/*/pnpm-lock.yaml"}
	case Uvx:
		return []string{"uv/archive-v*/*/*.dist-info/RECORD"}
	case Pipx:
		return []string{"pipx/venvs/*/lib/python*/site-packages/*.dist-info/RECORD"}
	case Direct, Docker:
	}
	return nil
}

// choosesCode reports whether a variable affects which code runs: variables of the loader,
// of interpreters and package managers, and search paths.
func choosesCode(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "DYLD_", "NODE_", "NPM_CONFIG_", "PYTHON", "PERL5", "RUBY", "GEM_", "BUNDLE_", "UV_", "PIP_", "PIPX_", "BUN_", "DENO_", "GIT_", "JAVA_", "BASH_FUNC_", "PNPM_", "VIRTUAL_ENV", "DOTNET_", "COREHOST_", "GCONV_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"PATH", "ENV", "BASH_ENV", "SHELLOPTS", "PS4", "IFS", "CLASSPATH", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "GOFLAGS", "EDITOR", "PAGER", "SHELL", "TMPDIR", "HOME"}, name)
}

// scriptFile returns the file that an interpreter runs; empty if it runs no file.
func scriptFile(program string, args []config.Text) string {
	takes := map[string]string{
		"node": "-r --require --import --loader -C --conditions", "python": "-W -X", "python3": "-W -X", "deno": "", "bun": "", "ruby": "-I -r -C", "perl": "",
		"sh": "-o", "bash": "-o -O", "dash": "-o", "php": "-d -c", "java": "-cp -classpath --class-path -p --module-path", "tsx": "", "ts-node": "",
	}
	valued, ok := takes[program]
	if !ok {
		return ""
	}
	for i := 0; i < len(args); i++ {
		word := value(args[i])
		switch {
		case program == "java" && word == "-jar" && i+1 < len(args):
			return value(args[i+1])
		case inlineCode(program, word), strings.HasPrefix(program, "python") && word == "-m":
			return ""
		case slices.Contains(strings.Fields(valued), word):
			i++
		case (program == "deno" || program == "bun") && word == "run":
		case word == "" || word[0] == '-':
		case program == "java":
			return "" // the argument is the name of a class
		default:
			return word
		}
	}
	return ""
}
