package launch

import (
	"slices"

	"belljar.dev/mcp/upstream/config"
)

// notOurs is the hint for options that would use other directories than belljar's.
const notOurs = "remove it: belljar gives each server directories of its own"

// century is a hundred years in minutes.
const century = "52560000"

// npx plans npx and npm exec (npm help exec). To install the packages, it makes npx run the
// shell command ":", which does nothing. The start of the server then finds the packages,
// because npm names a directory of its cache after the list of packages. During that start
// npm rewrites the index of its cache; if it cannot write there, it treats the cache as
// empty.
func (p *Plan) npx(args []config.Text, d Dirs) error {
	var h hosts
	packageNames := "-p --package"
	if base(p.program) == "npm" { // in npm, -p means --parseable
		packageNames = "--package"
	}
	in, err := p.parse(Npx, options(
		row{use: drop, names: "-y --yes --prefer-offline --prefer-online --offline --ignore-existing --no-update-notifier --no-audit --no-fund"},
		row{use: keep, names: "-q --quiet -s --silent -d -dd -ddd --verbose --ignore-scripts --legacy-peer-deps -f --force --foreground-scripts"},
		row{use: keep, takes: true, names: "--loglevel --script-shell --node-options"},
		row{use: spec, takes: true, names: packageNames},
		row{use: script, takes: true, names: "-c --call"},
		row{use: registry, takes: true, names: "--registry"},
		row{use: refused, names: "--no --no-install --no-yes", hint: "remove it: the package is installed in a separate phase, before the server starts"},
		row{use: refused, takes: true, names: "--cache --prefix --userconfig --globalconfig", hint: notOurs},
		row{use: refused, names: "-w --workspace --workspaces --include-workspace-root", hint: "name the package"},
	), args, &h)
	if err != nil {
		return err
	}
	if err := p.fromNpm(&h, in.packages); err != nil {
		return err
	}
	p.scripts(in)
	head, end := []config.Text{p.program}, []config.Text(nil)
	if base(p.program) == "npm" { // npm would read the server's options as its own
		head, end = append(head, literals("exec")...), literals("--")
	}
	head = slices.Concat(head, literals("--yes"), in.kept)
	p.phases(d, h, CacheScratch, nil,
		slices.Concat(head, withPackages("--package=", in.packages), literals("--call=:")),
		slices.Concat(head, in.named, end, in.rest))
	return nil
}

// bunx plans bunx and bun x (bunx --help). If the package is a separate option, bunx
// installs it and then runs the command true, which no package contains, from the system.
// Later it finds the installed package for the same option, also without a network.
func (p *Plan) bunx(args []config.Text, d Dirs) error {
	var h hosts
	in, err := p.parse(Bunx, options(
		row{use: keep, names: "--bun --verbose --silent"},
		row{use: install, names: "--trust --ignore-scripts"},
		row{use: install, takes: true, names: "--minimum-release-age"},
		row{use: spec, takes: true, names: "-p --package"},
		row{use: drop, names: "-y --yes"},
		row{use: registry, takes: true, names: "--registry"},
		row{use: refused, names: "--no-install", hint: "remove it: the package is installed in a separate phase, before the server starts"},
		row{use: refused, takes: true, names: "--cwd", hint: "write it as cwd of the entry"},
		row{use: refused, takes: true, names: "--env-file", hint: "write it as envFile of the entry"},
		row{use: refused, takes: true, names: "--ca --cafile", hint: "use a registry with a certificate of a public authority"},
	), args, &h)
	if err != nil {
		return err
	}
	if len(in.packages) > 1 {
		return refuse("--package", "use npx, or put them into one package", "the option --package of %s is given twice", Bunx)
	}
	if err := p.fromNpm(&h, in.packages); err != nil {
		return err
	}
	head := []config.Text{p.program}
	if base(p.program) == "bun" {
		head = append(head, literals("x")...)
	}
	p.phases(d, h, CacheReadOnly, nil,
		slices.Concat(head, in.kept, in.first, withPackages("--package=", in.packages), literals("true")),
		slices.Concat(head, literals("--no-install"), in.kept, in.named, in.rest))
	return nil
}

// pnpm plans pnpm dlx (pnpm help dlx). Its options may stand before or after the word dlx.
// After a day pnpm treats an installed package as too old, and asks the registry again; so
// the limit is set to a century, under the names that older and newer versions read.
func (p *Plan) pnpm(args []config.Text, d Dirs) error {
	var h hosts
	if at := slices.IndexFunc(args, func(t config.Text) bool { return value(t) == "dlx" }); at >= 0 && base(p.program) == "pnpm" {
		args = slices.Concat(args[:at], args[at+1:])
	}
	in, err := p.parse(Pnpm, options(
		row{use: keep, names: "-s --silent --ignore-scripts"},
		row{use: keep, takes: true, names: "--allow-build --reporter --loglevel"},
		row{use: drop, names: "-y --yes --offline --prefer-offline"},
		row{use: spec, takes: true, names: "--package"},
		row{use: registry, takes: true, names: "--registry"},
		row{use: shellMode, names: "-c --shell-mode"},
		row{use: refused, takes: true, names: "--store-dir --cache-dir --dir -C", hint: notOurs},
	), args, &h)
	if err != nil {
		return err
	}
	if err := p.fromNpm(&h, in.packages); err != nil {
		return err
	}
	if len(in.shell) > 0 && len(in.rest) > 0 {
		in.scripts = in.rest[:1]
		p.scripts(in)
	}
	head := slices.Concat([]config.Text{beside(p.program, "pnpm")}, in.kept)
	p.phases(d, h, CacheReadOnly, []string{"XDG_CACHE_HOME", d.Cache + "/pnpm-cache", "npm_config_dlx_cache_max_age", century, "pnpm_config_dlx_cache_max_age", century},
		slices.Concat(head, withPackages("--package=", in.packages), literals("--shell-mode", "dlx", ":")),
		slices.Concat(head, in.named, in.shell, literals("dlx"), in.rest))
	return nil
}

// fromNpm adds the packages and the hosts that they come from. h already contains the hosts
// of options.
func (p *Plan) fromNpm(h *hosts, packages []config.Text) error {
	return p.from(h, packages, h.npm, len(h.all) > 0, "npm_config_registry", "pnpm_config_registry", "BUN_CONFIG_REGISTRY")
}
