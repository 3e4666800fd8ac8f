package gateway

import (
	"path/filepath"
	"slices"
	"strings"

	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/launch"
	"belljar.dev/sandbox"
)

// Preview describes what an entry of a file would start. It contains the texts of the file
// unchanged, with secrets as references.
type Preview struct {
	Name    string
	Line    int
	Enabled bool
	URL     string // URL of a remote server
	Image   string // root file system of the box; empty for the usual one
	Install *PhasePreview
	Run     *PhasePreview // nil for a remote server, and for an entry that is switched off
	Mounts  []launch.Mount
	Sets    []string // variables or headers by name, with their references
	EnvFile string   // file whose variables the server gets
	Refers  []string // references to something outside the file, such as ${TOKEN}
}

// PhasePreview is one start of a program.
type PhasePreview struct {
	Argv  []string
	Hosts []string // registries that only this phase can reach
}

// PreviewFile reads a file as if it were the operator's, and plans the start of its servers
// without a policy. It starts nothing. The faults contain a warning for each note of a plan. The
// error is about a file that cannot be read.
func PreviewFile(name string) (all []Preview, faults []config.Fault, err error) {
	if name, err = filepath.Abs(name); err != nil {
		return nil, nil, err
	}
	data, err := readFile(name)
	if err != nil {
		return nil, nil, err
	}
	look := lookHere()
	all, faults = preview(name, data, look)
	return all, faults, nil
}

// PreviewText is PreviewFile for the text that a file is to have. Variables need not be set
// yet.
func PreviewText(name string, text []byte) (all []Preview, faults []config.Fault) {
	look := lookHere()
	find := look.Variable
	look.Variable = func(name string) (string, bool) {
		value, _ := find(name)
		return value, !config.Reserved(name)
	}
	return preview(name, text, look)
}

// lookHere returns what the operator's entries may refer to. It finds a value for every
// secret.
func lookHere() config.Lookup {
	look := config.Lookup{Secret: func(string) bool { return true }, Workspace: sandbox.WorkspaceDir}
	seeHost(&look)
	return look
}

// preview plans the start of the servers of a file.
func preview(name string, data []byte, look config.Lookup) (all []Preview, faults []config.Fault) {
	entries, faults := config.Read(name, data)
	for _, e := range entries {
		p := Preview{Name: e.Name, Line: e.Source.Line, Enabled: e.Enabled, Refers: config.References(e)}
		for _, v := range slices.Concat(e.Env, e.Headers) {
			set := v.Name // the name instead of the value, which may be a secret
			if refs := v.Value.References(); len(refs) > 0 {
				set += " from " + strings.Join(refs, " and ")
			}
			p.Sets = append(p.Sets, set)
		}
		if e.Enabled {
			bad := p.plan(e, look)
			faults = append(faults, bad...)
			if unusable(bad) {
				continue
			}
		}
		all = append(all, p)
	}
	return all, faults
}

// plan fills in what an entry would start.
func (p *Preview) plan(e config.Entry, look config.Lookup) []config.Fault {
	full, faults := config.Expand(e, look)
	if unusable(faults) {
		return faults
	}
	if full.Kind != config.Stdio {
		p.URL = full.URL.String()
		return faults
	}
	plan, err := launch.New(full, inBox)
	if err != nil {
		return append(faults, faultOf(e, config.Error, err.Error(), ""))
	}
	faults = append(faults, notesOf(e, plan)...)
	p.Image, p.Mounts, p.EnvFile = plan.Image, plan.Mounts, plan.EnvFile.String()
	if name, plain := plan.EnvFile.Plain(); plain && name != "" && !filepath.IsAbs(name) { // see readEnvFile
		p.EnvFile = filepath.Join(filepath.Dir(e.Source.File), name)
	}
	if plan.Run.Entrypoint {
		return append(faults, faultOf(e, config.Error, "server "+e.Name+": "+errEntrypoint.Error(), ""))
	}
	p.Run = &PhasePreview{Argv: plan.Run.Shown, Hosts: plan.Run.Hosts}
	if plan.Install != nil {
		p.Install = &PhasePreview{Argv: plan.Install.Shown, Hosts: plan.Install.Hosts}
	}
	return faults
}
