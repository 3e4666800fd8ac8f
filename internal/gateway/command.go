package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/launch"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// command returns how a server is started, with the values of its secrets.
func (g *site) command(ctx context.Context, spec upstream.Spec) (command, error) {
	s, err := g.server(&spec)
	if err != nil {
		return command{}, err
	}
	c := command{Scratch: s.plan.Run.Cache == launch.CacheScratch}
	if err := fits(s, spec.Grant); err != nil {
		return command{}, err
	}
	if in := s.plan.Install; in != nil {
		env := make(map[string]string, len(in.Env))
		for _, v := range in.Env {
			env[v.Name], _ = v.Value.Plain() // no variable of an install phase needs a secret, see launch
		}
		c.Install = &phase{Argv: in.Argv, Env: env}
	}
	c.Run = phase{Argv: s.plan.Run.Argv, Env: make(map[string]string, len(s.plan.Run.Env))}
	c.Run.Dir, _ = s.plan.Cwd.Plain()
	reveal := func(name string) (string, error) {
		value, err := g.secret(ctx, s, name)
		if err == nil && s.Settings.Secrets[name] == policies.SecretInEnv {
			c.Secrets = append(c.Secrets, value)
		}
		return value, err
	}
	for _, v := range s.plan.Run.Env {
		if c.Run.Env[v.Name], err = v.Value.Reveal(reveal); err != nil {
			return command{}, fmt.Errorf("the variable %s: %w", v.Name, err)
		}
	}
	return c, nil
}

// errEntrypoint is the error for an entry that does not name the program of its image.
var errEntrypoint = errors.New("the program of an image is not looked up: write it after the image, or as --entrypoint")

// fits returns an error if a box with the grant is not what the server's entry needs.
func fits(s *server, grant policies.Grant) error {
	p := s.plan
	if p.Image != grant.Image() {
		if p.Image == "" {
			return fmt.Errorf("the policy gives it the image %s, and its entry is not a docker run of that image", grant.Image())
		}
		return fmt.Errorf("it needs the image %s: import it with belljar image import %s, and write it into the policy as upstreams.servers.%s.profile.fs.image", p.Image, p.Image, s.Name)
	}
	if p.Run.Entrypoint {
		return errEntrypoint
	}
	for _, want := range p.Mounts {
		if !slices.ContainsFunc(grant.Mounts(), func(m policies.Mount) bool {
			return m.Source == want.Source && m.Target == want.Target && (want.ReadOnly || m.Writable)
		}) {
			return fmt.Errorf("it wants to see %s as %s: allow that in the policy, in upstreams.servers.%s.profile.fs, or take the mount out of its entry", want.Source, want.Target, s.Name)
		}
	}
	return nil
}

// secret returns the text that a server gets for a secret: the value, or a placeholder if
// the door adds the value to requests.
func (g *site) secret(ctx context.Context, s *server, name string) (string, error) {
	switch place, ok := s.Settings.Secrets[name]; {
	case !ok:
		return "", fmt.Errorf("the policy does not give it the secret %s", name)
	case place == policies.SecretAtDoor:
		return "BELLJAR-SECRET-" + name, nil
	}
	return g.cfg.Secret(ctx, name)
}

// InstallPins is the suffix of the name under which the pins of a server's install phase
// are kept.
const InstallPins = " (install)"

// check returns an upstream.ErrHeld if a server must not run, or its package must not be
// fetched, until a person has decided. It also returns the runs that it compared with the
// pins.
func (g *site) check(ctx context.Context, spec upstream.Spec, fetched string, installing bool) (runs pin.Runs, err error) {
	s, err := g.server(&spec)
	if err != nil {
		return runs, err
	}
	who := s.pins(spec.Key.Tenant)
	if installing {
		if s.rules().Mode >= pin.TOFU {
			return runs, nil // the operator's entry is trusted, and the fetched files are compared before they run
		}
		who.Name += InstallPins
		runs = pin.Runs{Command: s.pinned.Argv, Env: s.pinned.Env}
	} else if runs, err = g.runs(s, spec.Grant, fetched); err != nil {
		return runs, err
	}
	v := g.cfg.Pins.Judge(ctx, who, s.rules(), pin.Offer{Runs: runs})
	if v.Held != "" {
		err = heldError(v.Held)
	}
	return runs, err
}

// runs returns the data that are compared with the pins before a server is started.
func (g *site) runs(s *server, grant policies.Grant, fetched string) (r pin.Runs, err error) {
	if s.Remote {
		return pin.Runs{URL: s.pinned.Argv[0], Env: s.pinned.Env}, nil
	}
	r = pin.Runs{Command: s.pinned.Argv, Env: s.pinned.Env, Image: s.pinned.Image}
	if fetched != "" {
		if r.Lock, err = locked(fetched, s.pinned.Locks); err != nil {
			return r, err
		}
	}
	if s.pinned.Image != "" {
		return r, nil
	}
	var sums []string
	for _, name := range s.pinned.Files {
		file, below := g.onHost(name, s, grant)
		digest := func() (string, error) { return digestFile(file, below) }
		if file != "" && below == "" {
			digest = func() (string, error) { return g.programs.file(file) }
		}
		sum, err := digest()
		if err != nil {
			return r, fmt.Errorf("what runs cannot be compared with what was trusted: %w", err)
		}
		sums = append(sums, name+" "+sum)
	}
	r.File = strings.Join(sums, "\n")
	return r, nil
}

// searchPath returns the directories in which the box of a server without an image looks
// for programs.
func (s *server) searchPath(grant policies.Grant) []string {
	list := cmp.Or(grant.Env()["PATH"], sandbox.SearchPath)
	for _, v := range s.plan.Run.Env {
		if text, known := v.Value.Plain(); known && v.Name == "PATH" {
			list = text
		}
	}
	return filepath.SplitList(list)
}

// onHost returns the path on the host of a file in a server's box; empty if the host does
// not have it. below is the directory of the host that the box sees around the file, if any
// box can write the file; empty if no box can.
func (g *site) onHost(name string, s *server, grant policies.Grant) (file, below string) {
	if !strings.Contains(name, "/") {
		for _, dir := range s.searchPath(grant) {
			at, below := g.onHost(path.Join("/", dir, name), s, grant)
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
				return at, below
			}
		}
		return "", ""
	}
	if !path.IsAbs(name) {
		dir, _ := s.plan.Cwd.Plain()
		if dir == "" {
			dir = sandbox.WorkspaceDir
		}
		name = path.Join(dir, name)
	}
	name = path.Clean(name)
	at := policies.Mount{Source: "/", Target: "/"}
	for _, m := range append([]policies.Mount{{Source: g.cfg.Workspace, Target: "/workspace", Writable: true}}, grant.Mounts()...) {
		// A mount may be inside another one, and the box sees the inner one.
		if len(m.Target) > len(at.Target) && (name == m.Target || strings.HasPrefix(name, m.Target+"/")) {
			at = m
		}
	}
	file = filepath.Join(at.Source, strings.TrimPrefix(name, at.Target))
	// A directory that this box can only read may be the workspace of another box.
	if at.Writable || !g.cfg.Trusted(file) {
		below = at.Source
	}
	return file, below
}

// locked returns the digest of the lock files in which a launcher has recorded what it
// resolved.
func locked(dir string, patterns []string) (string, error) {
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, p))
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	var sums []string
	for _, name := range all {
		sum, err := digestFile(name, dir)
		if err != nil {
			return "", err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return "", err
		}
		sums = append(sums, rel+" "+sum)
	}
	if len(sums) == 0 {
		return "", errors.New("the launcher has left no file that lists what it fetched")
	}
	text, err := json.Marshal(sums)
	return config.Digest(text), err
}
