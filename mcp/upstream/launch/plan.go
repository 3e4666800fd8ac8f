package launch

import (
	"slices"
	"strings"

	"belljar.dev/mcp/upstream/config"
)

// New plans the start of an expanded entry of the kind config.Stdio. An error is a
// *Refusal.
func New(e config.Entry, d Dirs) (*Plan, error) {
	if e.Kind != config.Stdio {
		return nil, refuse("", "", "%s has no command to start", e.Name)
	}
	p := &Plan{Cwd: e.Cwd, EnvFile: e.EnvFile, program: e.Command, args: e.Args, env: e.Env}
	p.unwrap()
	var err error
	name, rest := launcher(p.program, p.args)
	p.Launcher = name
	switch name {
	case Npx:
		err = p.npx(rest, d)
	case Bunx:
		err = p.bunx(rest, d)
	case Pnpm:
		err = p.pnpm(rest, d)
	case Uvx:
		err = p.uvx(rest, d)
	case Pipx:
		err = p.pipx(rest, d)
	case Docker:
		err = p.docker(rest, d)
	case Direct:
		p.direct(d)
	}
	if err == nil {
		err = p.public()
	}
	if err != nil {
		return nil, err
	}
	p.lint()
	return p, nil
}

// public checks that no secret is in an argument or a path: every process of the box can
// read those.
func (p *Plan) public() error {
	const hint = "put it into env, where only the server reads it"
	texts := slices.Clone(p.Run.texts)
	if p.Install != nil {
		texts = append(texts, p.Install.texts...)
	}
	for _, t := range append(texts, p.Cwd, p.EnvFile) {
		if names := t.Secrets(); len(names) > 0 {
			return refuse("", hint, "the command line contains the secret %q, which every process in the box could read", names[0])
		}
	}
	return nil
}

// unwrap removes the parts of a Windows command around a launcher: the shell cmd, paths
// with backslashes and suffixes such as .cmd.
func (p *Plan) unwrap() {
	if base(p.program) == "cmd" && len(p.args) > 1 && strings.EqualFold(value(p.args[0]), "/c") {
		p.program, p.args = p.args[1], p.args[2:]
	}
	if name := base(p.program); strings.ContainsRune(value(p.program), '\\') || !strings.HasSuffix(value(p.program), name) {
		p.program = config.Literal(name)
	}
}

// launcher returns the launcher of a command, and the launcher's arguments.
func launcher(program config.Text, args []config.Text) (Launcher, []config.Text) {
	first, rest := "", args
	if len(args) > 0 {
		first, rest = value(args[0]), args[1:]
	}
	switch base(program) {
	case "npx":
		return Npx, args
	case "bunx":
		return Bunx, args
	case "pnpx":
		return Pnpm, args
	case "uvx":
		return Uvx, args
	case "npm":
		if first == "exec" || first == "x" {
			return Npx, rest
		}
	case "bun":
		if first == "x" {
			return Bunx, rest
		}
	case "pnpm":
		if slices.ContainsFunc(args, func(t config.Text) bool { return value(t) == "dlx" }) {
			return Pnpm, args
		}
	case "uv":
		if first == "tool" && len(rest) > 0 && (value(rest[0]) == "run") {
			return Uvx, rest[1:]
		}
	case "pipx":
		if slices.ContainsFunc(args, func(t config.Text) bool { return value(t) == "run" }) {
			return Pipx, args
		}
	case "docker", "podman":
		return Docker, args
	}
	return Direct, args
}

// direct plans a command that is itself the server.
func (p *Plan) direct(d Dirs) {
	p.Run = phase(slices.Concat([]config.Text{p.program}, p.args)...)
	p.Run.Env = p.environment(d, p.env, offline, nil)
	if base(p.program) == "uv" || base(p.program) == "yarn" || base(p.program) == "deno" {
		p.note("install what it needs before, or use uvx or npx", "%s may try to install something when it starts, which fails: only launchers have a phase for installing", base(p.program))
	}
}
