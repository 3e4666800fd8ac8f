package workspace

import (
	"fmt"
	"path"
	"strings"
)

// maxPatterns bounds the number of names that a caller may give.
const maxPatterns = 256

// choose returns the changes that at least one name selects. A name is a path, a directory
// for everything in it, or a pattern of path.Match in which ** matches any number of
// directories. No names select all changes. The directories that the selected changes need
// are added. A name that selects no change is an error.
func choose(all []Change, names []string) ([]Change, error) {
	if len(names) == 0 {
		return all, nil
	}
	if len(names) > maxPatterns {
		return nil, fmt.Errorf("%d paths, at most %d are allowed", len(names), maxPatterns)
	}
	used := make([]bool, len(names))
	chosen := make([]bool, len(all))
	needed := map[string]bool{}
	for i, name := range names {
		pattern := strings.Split(path.Clean(strings.TrimPrefix(name, "./")), "/")
		if strings.Count(name, "**") > 4 {
			return nil, fmt.Errorf("path %q: at most four ** are allowed", name)
		}
		if _, err := path.Match(strings.Join(pattern, "/"), ""); err != nil {
			return nil, fmt.Errorf("path %q: %w", name, err)
		}
		for j := range all {
			if matches(pattern, strings.Split(all[j].name, "/")) || strings.Join(pattern, "/") == "." {
				used[i], chosen[j] = true, true
				for dir := path.Dir(all[j].name); dir != "."; dir = path.Dir(dir) {
					needed[dir] = true
				}
			}
		}
		if !used[i] {
			return nil, fmt.Errorf("path %q: no changed file has that name", name)
		}
	}
	var some []Change
	for j := range all {
		c := &all[j]
		if chosen[j] || needed[c.name] && c.Kind != Deleted && c.Type == typeDir && (c.Kind == Added || c.WasType != "") {
			some = append(some, *c)
		}
	}
	return some, nil
}

// matches reports whether a pattern matches a path or a directory above it.
func matches(pattern, parts []string) bool {
	if len(pattern) == 0 {
		return true // the rest of the path is within a directory that matches
	}
	if pattern[0] == "**" {
		for i := range len(parts) + 1 {
			if matches(pattern[1:], parts[i:]) && (i < len(parts) || len(pattern) == 1) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], parts[0])
	return err == nil && (ok || pattern[0] == parts[0]) && matches(pattern[1:], parts[1:])
}
