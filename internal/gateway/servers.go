package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/launch"
	"belljar.dev/mcp/upstream/names"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// inBox contains directories of a server's box. Home and Temp are in each box, and end with
// the box. Home must exist before a launcher starts: pnpm resolves its path.
var inBox = launch.Dirs{Home: "/home/agent", Cache: policies.UpstreamCache, Temp: "/tmp"}

// server is one server of the configuration. It is immutable.
type server struct {
	upstream.Server
	entry  config.Entry // expanded entry, with its secrets as references
	plan   *launch.Plan // nil for a remote server
	pinned launch.Pinned
	place  string       // place in the key of its pins: the workspace if agents can write its file, else empty
	filter names.Filter // filter of the policy
}

// errChanged is the error of an instance whose server's entry has changed since the
// instance was started. The pool ends the instance.
var errChanged = errors.New("the configuration of the server has changed")

// heldError is the reason why a server must not run. It is an upstream.ErrHeld whose whole
// text is the reason.
type heldError string

func (e heldError) Error() string { return string(e) }

// Is makes errors.Is report that a heldError is an upstream.ErrHeld.
func (e heldError) Is(target error) bool { return target == upstream.ErrHeld }

// offers reports whether the file and the policy let clients use a tool or prompt with this
// native name.
func (s *server) offers(native string) bool {
	return s.entry.Tools.Has(native) && s.filter.Passes(native)
}

// pins returns the key of the server's pins for a tenant.
func (s *server) pins(tenant string) pin.Server {
	return pin.Server{Tenant: tenant, Place: s.place, Name: s.Name}
}

// rules returns the rules by which definitions of a server become trusted.
func (s *server) rules() pin.Rules { return pin.Rules{Mode: modeOf(s.Settings.Pin)} }

// modeOf converts a mode of the policy to a mode of pins.
func modeOf(p policies.Pin) pin.Mode {
	switch p {
	case policies.PinAsk:
		return pin.Ask
	case policies.PinTofu:
		return pin.TOFU
	case policies.PinOff:
		return pin.Off
	case policies.PinStrict:
	}
	return pin.Strict
}

// setup is all servers under one policy and one state of the files. It is immutable.
type setup struct {
	servers map[string]*server
	faults  []config.Fault    // faults of the files, for the operator
	off     []config.Entry    // entries that are switched off
	broken  map[string]string // reasons why entries cannot be used, by the names of the entries
}

// readSetup reads the files, and makes servers of their entries. An entry that cannot be
// used becomes a fault, and does not affect the other entries.
func (g *site) readSetup() (*setup, error) {
	entries, faults, err := g.readFiles()
	if err != nil {
		return nil, err
	}
	all := &setup{servers: make(map[string]*server, len(entries)), faults: faults, broken: make(map[string]string)}
	for _, e := range entries {
		if !e.Enabled {
			all.off = append(all.off, e)
			continue
		}
		s, bad := g.newServer(e)
		all.faults = append(all.faults, bad...)
		if s != nil {
			all.servers[e.Name] = s
		}
	}
	for _, f := range all.faults {
		if f.Entry != "" && f.Level == config.Error && all.servers[f.Entry] == nil {
			all.broken[f.Entry] = f.Message
		}
	}
	return all, nil
}

// newServer makes a server of an entry.
func (g *site) newServer(e config.Entry) (*server, []config.Fault) {
	trusted := e.Source.Trusted
	settings := g.cfg.Policy().Upstreams().Of(e.Name, trusted)
	look := config.Lookup{
		Secret:    func(name string) bool { _, ok := settings.Secrets[name]; return ok },
		Workspace: sandbox.WorkspaceDir,
	}
	if trusted {
		seeHost(&look)
	}
	full, faults := config.Expand(e, look)
	if unusable(faults) {
		return nil, faults
	}
	fail := func(hint, format string, args ...any) (*server, []config.Fault) {
		return nil, append(faults, faultOf(e, config.Error, fmt.Sprintf(format, args...), hint))
	}
	s := &server{
		Server: upstream.Server{Name: e.Name, Trusted: trusted, Remote: full.Kind != config.Stdio, Settings: settings},
		entry:  full, filter: names.Filter{Allow: settings.AllowTools, Deny: settings.DenyTools},
	}
	if !trusted {
		s.place = g.cfg.Workspace
	}
	if strings.HasSuffix(e.Name, InstallPins) {
		return fail("give the entry another name", "the end of its name is reserved for the pins of what is fetched")
	}
	if !s.Remote {
		plan, err := launch.New(full, inBox)
		if err != nil {
			return fail("", "%v", err)
		}
		s.plan, s.Installs = plan, plan.Install != nil
		faults = append(faults, notesOf(e, plan)...)
		if !plan.EnvFile.Empty() {
			if bad := s.readEnvFile(g.cfg.Trusted); bad != nil {
				return fail(bad.Hint, "%s", bad.Message)
			}
		}
	}
	s.pinned = launch.Pin(s.entry, s.plan)    // after readEnvFile, so that the pins contain the variables of the file
	settings.Limit.Source = policies.Source{} // the place in the policy file does not belong to the identity
	id, err := json.Marshal([]any{s.pinned, identity(s.entry), trusted, settings, g.cfg.Policy().Upstreams().Fingerprint(e.Name, trusted)})
	if err != nil {
		return fail("", "%v", err)
	}
	s.ID = config.Digest(id)
	return s, faults
}

// unusable reports whether one of the faults of an entry is an error.
func unusable(faults []config.Fault) bool {
	return slices.ContainsFunc(faults, func(f config.Fault) bool { return f.Level == config.Error })
}

// notesOf returns a warning for each note of the plan of an entry.
func notesOf(e config.Entry, plan *launch.Plan) (all []config.Fault) {
	for _, n := range plan.Notes {
		all = append(all, faultOf(e, config.Warning, "server "+e.Name+": "+n.Message, n.Hint))
	}
	return all
}

// faultOf returns a fault of an entry.
func faultOf(e config.Entry, level config.Level, message, hint string) config.Fault {
	f := config.Fault{File: e.Source.File, Line: e.Source.Line, Col: e.Source.Col, Level: level, Message: message, Hint: hint}
	if level == config.Error {
		f.Entry = e.Name
	}
	return f
}

// seeHost lets a trusted entry see the environment and the home directory of the operator.
func seeHost(look *config.Lookup) {
	look.Variable = func(name string) (string, bool) {
		if config.Reserved(name) {
			return "", false
		}
		return os.LookupEnv(name)
	}
	look.Home, _ = os.UserHomeDir() // without a home directory, ~ is a fault of the entry
}

// identity returns the parts of an entry that are missing in its pins, or are there only by
// name. Values of variables stand as digests. An instance ends if one of these parts
// changes.
func identity(e config.Entry) (all []string) {
	for _, v := range slices.Concat(e.Env, e.Headers) {
		all = append(all, v.Name+"="+v.Value.Pinned())
	}
	return append(all, string(e.Kind), e.Prefix, e.Cwd.Pinned(), fmt.Sprint(e.Tools))
}

// readEnvFile adds the variables of the entry's envFile to those of the entry. The
// variables of the entry take precedence.
func (s *server) readEnvFile(trust func(file string) bool) *config.Fault {
	name, _ := s.plan.EnvFile.Plain()
	if name = filepath.Clean(name); !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(s.entry.Source.File), name)
	}
	if !s.Trusted || !trust(name) {
		return &config.Fault{Message: "its envFile is not read, since agents can write it or the entry", Hint: "write the variables into env"}
	}
	data, err := readFile(name)
	if err != nil {
		return &config.Fault{Message: err.Error(), Hint: "write the variables into env"}
	}
	more, faults := config.ReadEnvFile(name, data)
	for _, f := range faults {
		if f.Level == config.Error {
			return &f
		}
	}
	for _, v := range more {
		if !slices.ContainsFunc(s.plan.Run.Env, func(have config.Variable) bool { return strings.EqualFold(have.Name, v.Name) }) {
			s.plan.Run.Env = append(s.plan.Run.Env, v)
			s.entry.Env = append(slices.Clip(s.entry.Env), v)
		}
	}
	return nil
}
