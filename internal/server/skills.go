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

// skillsBelow is where boxes see the folders of skills.
const skillsBelow = "/skills"

// openSkills is the catalog of a workspace. Nothing is read yet.
func (s *Server) openSkills(context.Context) error {
	sources := []skills.Source{{
		Name: "workspace", Dir: ".claude/skills", Beneath: s.Workspace,
		Box: "/workspace/.claude/skills", Required: ".claude/required_skills.txt",
	}}
	if home, err := os.UserHomeDir(); err == nil {
		dir := filepath.Join(home, ".claude", "skills")
		sources = s.flow.addSkills(s.host, sources, "user", dir, filepath.Join(home, ".claude", "required_skills.txt"))
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
		sources = s.flow.addSkills(s.host, sources, name, dir, filepath.Join(dir, "required_skills.txt"))
	}
	builtin := skills.Builtin()
	if dir := config.UserDir(); dir != "" {
		builtin.Required = filepath.Join(dir, "required_skills.txt")
	}
	sources = append(sources, builtin)
	s.flow.skills = skills.New(skills.Config{Sources: sources, Off: skillsOff(os.Environ()), Listed: listOf(os.Getenv("SKILLS_LISTED"))})
	return nil
}

// addSkills adds a folder of the operator's. One that a box can write, or one in
// the workspace, is not believed.
func (f *flow) addSkills(h *host, sources []skills.Source, name, dir, required string) []skills.Source {
	real := config.RealPath(dir)
	if real == config.RealPath(filepath.Join(h.Workspace, ".claude", "skills")) {
		return sources // it is that of the workspace
	}
	if h.State != "" && config.Inside(config.RealPath(h.State), real) {
		h.Log.Error("a folder of skills is not used: the state lies in it, which no box may see", "folder", dir)
		return sources
	}
	one := skills.Source{Name: name, Dir: dir, Required: required, Trusted: h.onlyMine(dir) && h.onlyMine(filepath.Dir(required))}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		one.Box = skillsBelow + "/" + name
		f.shared = append(f.shared, policies.Mount{Source: real, Target: one.Box})
	}
	return append(sources, one)
}

// skillsOff returns whether SKILL_NAME=0 switches a skill off. NAME is the skill's
// name in capitals, with _ for other characters.
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

// listOf are the parts of a text between commas.
func listOf(text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
