package skills

import (
	"fmt"
	"path"
	"strings"
)

// Bounds of the list for agents, in characters. The list is part of a tool's
// description, which clients read at every start.
const (
	listMost = 3000
	lineMost = 240
)

// Text returns the list of the skills for an agent, sorted by name. The bytes are the same
// as long as the skills are the same. The list does not contain the descriptions from
// sources that are not trusted.
func (c *Catalog) Text() string {
	c.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text()
}

// text is Text for a caller that holds mu.
func (c *Catalog) text() string {
	all := c.sorted()
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Available skills:\n")
	listed := 0
	for _, s := range all {
		if !c.lists(s.Name) {
			continue
		}
		line := fmt.Sprintf("- %s: %s\n", s.Name, s.Description)
		if !s.Trusted {
			line = fmt.Sprintf("- %s (of the %s; SearchSkills shows its own description)\n", s.Name, s.Source)
		}
		if n := lineMost; len([]rune(line)) > n {
			line = clip(strings.TrimSuffix(line, "\n"), n) + "\n"
		}
		if b.Len()+len(line) > listMost {
			break
		}
		b.WriteString(line)
		listed++
	}
	if more := len(all) - listed; more > 0 {
		fmt.Fprintf(&b, "(+%d more skills not listed - use SearchSkills to discover them)\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// lists reports whether Text may list a skill.
func (c *Catalog) lists(name string) bool {
	if len(c.cfg.Listed) == 0 {
		return true
	}
	for _, pattern := range c.cfg.Listed {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}
