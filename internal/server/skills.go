package server

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"belljar.dev/internal/config"
	"belljar.dev/internal/skills"
	"belljar.dev/policies"
)

// skillsBelow is the path at which boxes see the folders of skills.
const skillsBelow = "/skills"

// skillFolders contains the folders of skills that all places of a server have.
type skillFolders struct {
	sources []skills.Source
	shared  []policies.Mount // mounts of the folders, for every box
}

// openSkills finds the folders of the operator's skills. It reads no skill.
func (s *Server) openSkills(context.Context) error {
	if home, err := os.UserHomeDir(); err == nil {
		dir := filepath.Join(home, ".claude", "skills")
		s.skills.add(s.host, "user", dir, filepath.Join(home, ".claude", "required_skills.txt"))
	}
	for i, dir := range filepath.SplitList(os.Getenv("ADDITIONAL_SKILLS")) {
		name := "additional"
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		if !filepath.IsAbs(dir) {
			s.Log.Error("a folder of ADDITIONAL_SKILLS is not used: its path does not begin with /", "folder", dir)
			continue
		}
		s.skills.add(s.host, name, dir, filepath.Join(dir, "required_skills.txt"))
	}
	builtin := skills.Builtin()
	if dir := config.UserDir(); dir != "" {
		builtin.Required = filepath.Join(dir, "required_skills.txt")
	}
	s.skills.sources = append(s.skills.sources, builtin)
	if s.cfg.toolkitIn(s.gate) {
		s.skills.sources = append(s.skills.sources, skills.Toolkit())
	}
	return nil
}

// add adds a folder of the operator. The folder is not trusted if a box can write it or it
// lies in a workspace.
func (f *skillFolders) add(h *host, name, dir, required string) {
	real := config.RealPath(dir)
	if real == ofWorkspace(h.Workspace) {
		return // openSkills of the place adds this folder
	}
	if h.State != "" && config.Inside(config.RealPath(h.State), real) {
		h.Log.Error("a folder of skills is not used: the state lies in it, which no box may see", "folder", dir)
		return
	}
	one := skills.Source{Name: name, Dir: dir, Required: required, Trusted: h.onlyMine(dir) && h.onlyMine(filepath.Dir(required))}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		one.Box = skillsBelow + "/" + name
		f.shared = append(f.shared, policies.Mount{Source: real, Target: one.Box})
	}
	f.sources = append(f.sources, one)
}

// ofWorkspace returns the folder of the skills of a workspace, without links.
func ofWorkspace(workspace string) string {
	return config.RealPath(filepath.Join(workspace, ".claude", "skills"))
}

// openSkills makes the catalog of a place: the skills of its workspace, and those of all
// places.
func (p *place) openSkills(context.Context) error {
	sources := []skills.Source{{
		Name: "workspace", Dir: ".claude/skills", Beneath: p.Workspace,
		Box: "/workspace/.claude/skills", Required: ".claude/required_skills.txt",
	}}
	own := ofWorkspace(p.Workspace)
	for _, one := range p.server.skills.sources {
		if one.Dir == "" || config.RealPath(one.Dir) != own {
			sources = append(sources, one)
		}
	}
	p.flow.skills = skills.New(skills.Config{Sources: sources, Off: skillsOff(os.Environ()), Listed: listOf(os.Getenv("SKILLS_LISTED"))})
	return nil
}

// skillsOff returns a function that reports whether SKILL_NAME=0 switches a skill off. NAME
// is the skill's name in capitals, with _ for other characters.
func skillsOff(environ []string) (off func(string) bool) {
	names := make(map[string]bool)
	for _, v := range environ {
		if name, ok := strings.CutPrefix(v, "SKILL_"); ok {
			if name, ok = strings.CutSuffix(name, "=0"); ok {
				names[name] = true
			}
		}
	}
	return func(skill string) bool {
		return names[strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z':
				return r - 'a' + 'A'
			case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
				return r
			}
			return '_'
		}, skill)]
	}
}

// listOf returns the parts of a text between commas.
func listOf(text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
