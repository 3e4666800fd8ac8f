package launch

import (
	"regexp"
	"slices"
	"sync"

	"belljar.dev/mcp/upstream/config"
)

// uvx plans uvx and uv tool run (uv help tool run). The first phase runs a Python program
// that does nothing, in the environment of the package; this fills the cache. A run locks
// the cache and makes environments in it, so it must be able to write there even offline.
func (p *Plan) uvx(args []config.Text, d Dirs) error {
	var h hosts
	in, err := p.parse(Uvx, options(
		row{use: keep, names: "--isolated --no-env-file --no-sources --native-tls --system-certs --no-native-tls --no-config --managed-python --no-managed-python --no-python-downloads -q --quiet -v --verbose --no-build --no-binary --no-build-isolation --compile-bytecode --pre --no-progress --preview --lfs"},
		row{use: keep, takes: true, names: "-p --python -c --constraints --constraint --overrides --override -b --build-constraints --index-strategy --resolution --prerelease --exclude-newer --link-mode -C --config-setting --no-build-package --no-binary-package --color --python-platform --torch-backend --directory --project --fork-strategy"},
		row{use: install, names: "-U --upgrade --refresh --reinstall --force-reinstall"},
		row{use: install, takes: true, names: "-P --upgrade-package --refresh-package --reinstall-package"},
		row{use: drop, names: "--offline --no-cache -n"},
		row{use: spec, takes: true, names: "--from"},
		row{use: also, takes: true, names: "-w --with --with-editable --with-requirements"},
		row{use: registry, takes: true, names: "--index --default-index -i --index-url --extra-index-url -f --find-links"},
		row{use: refused, takes: true, names: "--env-file", hint: "write it as envFile of the entry"},
		row{use: refused, takes: true, names: "--cache-dir", hint: notOurs},
		row{use: refused, takes: true, names: "--config-file", hint: "write its settings as options or variables"},
		row{use: refused, takes: true, names: "--allow-insecure-host --trusted-host", hint: "use a registry with https and a certificate"},
		row{use: refused, takes: true, names: "--keyring-provider", hint: "a box has no keyring"},
	), args, &h)
	if err != nil {
		return err
	}
	// --extra-index-url, --index and --find-links only add to the usual index.
	if err := p.from(&h, slices.Concat(in.packages, in.further), h.python, replaces(args, "--default-index", "-i", "--index-url"), "UV_INDEX_URL", "UV_DEFAULT_INDEX"); err != nil {
		return err
	}
	head := []config.Text{p.program}
	if base(p.program) == "uv" {
		head = append(head, literals("tool", "run")...)
	}
	head = slices.Concat(head, in.kept)
	p.phases(d, h, CacheScratch, nil,
		slices.Concat(head, in.first, withPackages("--from=", in.packages[:1]), literals("python", "-c", "")),
		slices.Concat(head, in.named, in.rest))
	return nil
}

// replaces reports whether one of the options is given.
func replaces(args []config.Text, names ...string) bool {
	return slices.ContainsFunc(args, func(t config.Text) bool {
		name, _, joined := t.Cut("=")
		if !joined {
			name = value(t)
		}
		return slices.Contains(names, name)
	})
}

var appName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]+`) })

// pipx plans pipx run (pipx run --help). pipx run deletes what it installed after two
// weeks. So pipx install installs the package, and the server is started by the command
// that this makes.
func (p *Plan) pipx(args []config.Text, d Dirs) error {
	var h hosts
	at := slices.IndexFunc(args, func(t config.Text) bool { return value(t) == "run" })
	for _, t := range args[:at] {
		if v := value(t); v != "-q" && v != "--quiet" && v != "-v" && v != "--verbose" {
			return refuse(t.String(), "write it after run", "belljar does not know the option %s of pipx", t)
		}
	}
	in, err := p.parse(Pipx, options(
		row{use: keep, names: "--system-site-packages --fetch-missing-python -q --quiet -v --verbose"},
		row{use: keep, takes: true, names: "--python --pip-args --backend"},
		row{use: drop, names: "--no-cache --no-path-check"},
		row{use: spec, takes: true, names: "--spec"},
		row{use: also, takes: true, names: "--with"},
		row{use: registry, takes: true, names: "-i --index-url"},
		row{use: refused, names: "--pypackages --path -e --editable", hint: "start the program itself, with python as the command"},
	), args[at+1:], &h)
	if err != nil {
		return err
	}
	if len(in.further) > 0 {
		return refuse("--with", "write uvx --with, or put both into one package", "the option --with of %s is refused", Pipx)
	}
	if err := p.from(&h, in.packages, h.python, replaces(args, "-i", "--index-url"), "PIP_INDEX_URL"); err != nil {
		return err
	}
	app := in.rest[0]
	if name := appName().FindString(value(app)); name != value(app) { // NAME==VERSION and similar forms
		if name == "" || len(app.Variables()) > 0 {
			return refuse("", "write pipx run --spec PACKAGE COMMAND", "the package %s does not show which command it has", app)
		}
		app = config.Literal(name)
	}
	run := slices.Concat([]config.Text{app.With(d.Cache + "/pipx-bin/")}, in.rest[1:])
	p.phases(d, h, CacheReadOnly, nil,
		slices.Concat([]config.Text{p.program}, literals("install", "--force"), in.kept, in.packages[:1]), run)
	return nil
}
