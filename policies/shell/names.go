package shell

import (
	"path"
	"slices"
	"strings"
)

// Bounds of Names.
const (
	maxNames = 256
	maxDirs  = 8
)

// Names are what the words of a script may name: see Script.Names.
type Names struct {
	Programs []string // bare names of programs, to be found along PATH
	Files    []string // names that may be files, relative to one of Dirs or absolute
	Dirs     []string // directories to which relative names may be relative: "" is where the script begins
	More     string   // why there may be other names; empty if all are listed
}

// projects are files that programs read by themselves in their working directory, and that
// name something to run.
var projects = map[string]wordList{
	"make gmake":                   "GNUmakefile makefile Makefile",
	"npm npx yarn pnpm bun":        "package.json .npmrc .yarnrc.yml",
	"cargo":                        "Cargo.toml build.rs .cargo/config.toml",
	"just":                         "justfile Justfile .justfile",
	"task":                         "Taskfile.yml Taskfile.yaml",
	"docker docker-compose":        "compose.yaml compose.yml docker-compose.yml docker-compose.yaml Dockerfile",
	"pytest tox nox pip poetry uv": "pyproject.toml setup.py setup.cfg tox.ini noxfile.py pytest.ini conftest.py",
	"rake bundle":                  "Rakefile Gemfile",
	"mvn gradle ant":               "pom.xml build.gradle build.gradle.kts settings.gradle build.xml",
	"pre-commit":                   ".pre-commit-config.yaml",
	"terraform tofu":               "main.tf",
	"vagrant":                      "Vagrantfile",
	"cmake ctest":                  "CMakeLists.txt",
	"deno":                         "deno.json deno.jsonc",
	"ninja":                        "build.ninja",
	"meson":                        "meson.build",
}

// Names lists what the words of a script may name. It does not know the options of
// programs: each word may be the name of a file, and so may the text after an = or an @ in
// a word, and the text after a short option.
func (s Script) Names() Names {
	n := Names{Dirs: []string{""}}
	literal := func(c Command) bool {
		return len(c.Words) > 0 && c.Words[0].Certainty == Exact && Literal(c.Words[0].Text)
	}
	allLiteral := !slices.ContainsFunc(s.Commands, func(c Command) bool { return len(c.Words) > 0 && !literal(c) })
	for i := range s.Commands {
		c := &s.Commands[i]
		if allLiteral && literal(*c) {
			// The content of the command's files does not change what runs: no other
			// program gets what the command prints or copies.
			n.add(&n.Programs, c.Words[0].Text, maxNames)
			if c.Words[0].Text == "cd" {
				n.words("cd", c.Words[1:])
			}
			continue
		}
		for _, d := range c.Redirects {
			if d.Read && d.Target.Certainty == Exact {
				n.file(d.Target.Text)
			}
		}
		if len(c.Words) == 0 || c.Words[0].Certainty != Exact {
			continue
		}
		program := c.Words[0].Text
		if strings.Contains(program, "/") {
			n.file(program)
		} else if _, shells := programs()[program]; !shells || !builtins[program] {
			n.add(&n.Programs, program, maxNames)
		}
		for list, files := range projects {
			if slices.Contains(fields(list), path.Base(program)) {
				for _, f := range files.names() {
					n.file(f)
				}
			}
		}
		n.words(program, c.Words[1:])
	}
	slices.Sort(n.Files)
	return n
}

// words adds what the arguments of a program may name.
func (n *Names) words(program string, words []Word) {
	for k, w := range words {
		if w.Certainty != Exact {
			continue // the script is unsure because of this word anyway
		}
		text := w.Text
		moves := program == "cd" || program == "pushd"
		if k > 0 {
			switch words[k-1].Text {
			case "-C", "--directory", "--cwd", "--prefix", "--chdir", "--project", "--work-tree":
				moves = true
			}
		}
		if dir, ok := strings.CutPrefix(text, "-C"); ok && dir != "" && !moves {
			text, moves = dir, true
		}
		if moves && !strings.HasPrefix(text, "-") {
			n.moves(text)
			continue
		}
		n.file(text)
		if _, value, ok := strings.Cut(text, "="); ok {
			n.file(value)
		}
		if _, value, ok := strings.Cut(text, "@"); ok {
			n.file(value)
		}
		if len(text) > 2 && text[0] == '-' && text[1] != '-' {
			n.file(text[2:])
		}
	}
}

// moves records a directory that may be the working directory of the following commands.
func (n *Names) moves(dir string) {
	for _, from := range slices.Clone(n.Dirs) {
		to := dir
		if !path.IsAbs(dir) {
			to = strings.TrimPrefix(from+"/"+dir, "/") // behind a link, .. can be another directory than path.Join returns
		}
		n.add(&n.Dirs, to, maxDirs)
	}
}

func (n *Names) file(name string) {
	if name != "" && name != "-" && name[0] != '-' && len(name) < 4096 {
		n.add(&n.Files, name, maxNames)
	}
}

func (n *Names) add(to *[]string, name string, most int) {
	switch {
	case slices.Contains(*to, name):
	case len(*to) == most:
		n.More = "it names more files and directories than are looked at"
	default:
		*to = append(*to, name)
	}
}
