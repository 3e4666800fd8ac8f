package protect

import (
	"path"
	"slices"
	"strings"
)

// gitSetting is one line of a git configuration that sets something, with its place in the
// text.
type gitSetting struct {
	section, sub, key string // section and key in lower case
	hasSub, bare      bool   // whether it has a sub; whether it is a key without a value
	value             string
	from, to          int // offsets in the text: where the key begins, and where its line ends
}

// name returns the name of the setting as git-config(1) writes it.
func (s *gitSetting) name() string {
	if s.hasSub {
		return s.section + "." + s.sub + "." + s.key
	}
	return s.section + "." + s.key
}

// configReader reads a configuration as git does (git: config.c, git_parse_source,
// get_base_var, parse_value): a text that the two read differently would be a way around
// the list of what may be set.
type configReader struct {
	text []byte
	at   int
	eof  bool
}

// next returns the next character. The end of a line is one character, and the end of the
// text is one more.
func (r *configReader) next() byte {
	if r.at >= len(r.text) {
		r.eof = true
		return '\n'
	}
	c := r.text[r.at]
	r.at++
	if c == '\r' && r.at < len(r.text) && r.text[r.at] == '\n' {
		r.at++
		return '\n'
	}
	return c
}

// readConfig returns what a configuration sets. git reads text only up
// to the first error: good is the offset of that, or the length of a text without errors.
func readConfig(text []byte) (all []gitSetting, good int) {
	r := &configReader{text: text}
	if strings.HasPrefix(string(text), "\xef\xbb\xbf") {
		r.at = 3 // git skips a byte order mark
	}
	var section, sub string
	var hasSub, within bool
	for {
		good = r.at
		c := r.next()
		switch {
		case r.eof:
			return all, len(text)
		case isSpace(c):
		case c == '#' || c == ';':
			for c != '\n' {
				if c == 0 {
					return all, good
				}
				c = r.next()
			}
		case c == '[':
			var ok bool
			if section, sub, hasSub, ok = r.header(); !ok {
				return all, good
			}
			within = true
		case isLetter(c) && within:
			s := gitSetting{section: section, sub: sub, hasSub: hasSub, from: good}
			if !r.setting(c, &s) {
				return all, good
			}
			s.to = r.at
			all = append(all, s)
		default:
			return all, good
		}
	}
}

// header reads what follows "[".
func (r *configReader) header() (section, sub string, hasSub, ok bool) {
	var b strings.Builder
	for {
		c := r.next()
		switch {
		case c == ']' && !r.eof:
			// The old form [section.sub], in which the case of sub is lost.
			section, sub, hasSub = strings.Cut(b.String(), ".")
			return section, sub, hasSub, section != ""
		case c == ' ' || c == '\t':
			sub, ok = r.subsection()
			section = b.String()
			if before, after, dotted := strings.Cut(section, "."); dotted {
				section, sub = before, after+"."+sub
			}
			return section, sub, true, ok && section != ""
		case isLetter(c) || isDigit(c) || c == '-' || c == '.':
			b.WriteByte(lower(c))
		default:
			return "", "", false, false
		}
	}
}

// subsection reads `  "name"]`.
func (r *configReader) subsection() (string, bool) {
	c := r.next()
	for c == ' ' || c == '\t' {
		c = r.next()
	}
	if c != '"' {
		return "", false
	}
	var b strings.Builder
	for {
		switch c = r.next(); c {
		case '\\':
			c = r.next()
		case '"':
			return b.String(), r.next() == ']' && !r.eof
		}
		if c == '\n' || c == 0 {
			return "", false
		}
		b.WriteByte(c)
	}
}

// setting reads a key and its value. c is the first letter of the key.
func (r *configReader) setting(c byte, s *gitSetting) bool {
	var key strings.Builder
	for isLetter(c) || isDigit(c) || c == '-' {
		key.WriteByte(lower(c))
		c = r.next()
	}
	s.key = key.String()
	for c == ' ' || c == '\t' {
		c = r.next()
	}
	switch c {
	case '\n':
		s.bare = true // a key without a value means true
		return true
	case '=':
		var ok bool
		s.value, ok = r.value()
		return ok
	}
	return false
}

// value reads the value after "=", which may have several lines.
func (r *configReader) value() (string, bool) {
	var b strings.Builder
	quoted, comment := false, false
	spaces := 0
	for {
		c := r.next()
		switch {
		case c == 0:
			return "", false // git, written in C, would end the text here
		case c == '\n':
			return b.String(), !quoted
		case comment:
			continue
		case isSpace(c) && !quoted:
			if b.Len() > 0 {
				spaces++
			}
			continue
		case (c == ';' || c == '#') && !quoted:
			comment = true
			continue
		}
		b.WriteString(strings.Repeat(" ", spaces))
		spaces = 0
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			switch c = r.next(); c {
			case '\n':
			case 't':
				b.WriteByte('\t')
			case 'b':
				b.WriteByte('\b')
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(c)
			default:
				return "", false
			}
		default:
			b.WriteByte(c)
		}
	}
}

// These follow git's definitions and not Unicode's (git: git-compat-util.h, sane_ctype).
func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// strip returns text without the settings for which bad is true, and without the end that
// git could not read, unless that is tail. Every other byte stays as it is. taken are the
// names of the settings that were removed.
func strip(text []byte, bad func(*gitSetting) bool, tail string) (kept []byte, taken []string) {
	all, good := readConfig(text)
	from := 0
	for i := range all {
		s := &all[i]
		if !bad(s) {
			continue
		}
		taken = append(taken, s.name())
		start, end := s.from, s.to
		for start > from && (text[start-1] == ' ' || text[start-1] == '\t') {
			start--
		}
		if start > 0 && text[start-1] != '\n' && end > start && text[end-1] == '\n' {
			end-- // the setting shares its line with a section's header
			if text[end-1] == '\r' && end-1 > start {
				end--
			}
		}
		kept = append(kept, text[from:start]...)
		from = end
	}
	if good < len(text) && tail == string(text[good:]) {
		good = len(text)
	}
	if good < len(text) {
		taken = append(taken, "a line that git cannot read, and what follows it")
	}
	if from < good {
		kept = append(kept, text[from:good]...)
	}
	return kept, taken
}

// repoKeys are what a box may set in a repository that it made: what git itself writes at
// init, clone, checkout and remote, and harmless settings such as names and colours. Any
// other setting would have to be trusted, and many of them name programs, files or other
// repositories (git-config(1)).
var repoKeys = map[string][]string{
	"advice": {"*"},
	"branch": {"autosetupmerge", "autosetuprebase", "sort"},
	"branch.*": {
		"remote", "pushremote", "merge", "rebase", "description",
		"vscode-merge-base", "github-pr-owner-number", "gh-merge-base",
	},
	"color": {"*"}, "color.*": {"*"}, "column": {"*"},
	"core": {
		"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks",
		"autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "whitespace", "compression", "loosecompression",
		"bigfilethreshold", "sparsecheckout", "sparsecheckoutcone", "untrackedcache", "checkstat", "trustctime",
		"preloadindex", "longpaths",
	},
	"diff":       {"algorithm", "renames", "renamelimit", "context", "mnemonicprefix", "noprefix", "colormoved", "submodule"},
	"extensions": {"objectformat", "compatobjectformat", "partialclone", "worktreeconfig", "preciousobjects", "relativeworktrees", "refstorage"},
	"fetch":      {"prune", "prunetags", "parallel", "recursesubmodules", "writecommitgraph"},
	"gc":         {"auto", "autodetach", "autopacklimit"},
	"index":      {"version", "threads", "sparse"},
	"init":       {"defaultbranch", "defaultobjectformat"},
	"lfs":        {"repositoryformatversion"},
	"log":        {"date", "decorate", "follow", "abbrevcommit"},
	"merge":      {"ff", "conflictstyle", "log", "stat", "renames", "renamelimit"},
	"pack":       {"threads", "window", "depth", "windowmemory", "compression"},
	"pull":       {"rebase", "ff"},
	"push":       {"default", "autosetupremote", "followtags", "recursesubmodules"},
	"rebase":     {"autosquash", "autostash", "updaterefs", "stat"},
	"remote":     {"pushdefault"},
	"remote.*": {
		"url", "pushurl", "fetch", "push", "mirror", "prune", "prunetags", "tagopt", "skipdefaultupdate",
		"skipfetchall", "promisor", "partialclonefilter", "followremotehead", "gh-resolved",
	},
	"rerere":      {"enabled", "autoupdate"},
	"stash":       {"showpatch", "showstat", "showincludeuntracked"},
	"status":      {"*"},
	"submodule":   {"active", "recurse", "fetchjobs"},
	"submodule.*": {"url", "active", "branch", "ignore", "shallow", "fetchrecursesubmodules"},
	"tag":         {"sort"},
	"user":        {"name", "email", "useconfigonly"},
	"author":      {"name", "email"},
	"committer":   {"name", "email"},
	"worktree":    {"guessremote", "userelativepaths"},
}

// moduleKeys are what a .gitmodules may set.
var moduleKeys = map[string][]string{
	"submodule.*": {"path", "url", "branch", "ignore", "shallow", "fetchrecursesubmodules", "update"},
}

// harmless reports whether a setting is on a list, with a value that runs
// nothing.
func harmless(s *gitSetting, list map[string][]string) bool {
	section := s.section
	if s.hasSub {
		section += ".*"
	}
	keys := list[section]
	if !slices.Contains(keys, s.key) && !slices.Contains(keys, "*") {
		return false
	}
	switch s.key {
	case "refstorage":
		return s.value == "files" || s.value == "reftable"
	case "url", "pushurl", "remote", "pushremote", "pushdefault", "partialclone":
		// TRANSPORT::ADDRESS runs the program git-remote-TRANSPORT, and ext:: runs any
		// program (gitremote-helpers(7)). A leading dash is an option to the program that
		// connects (CVE-2017-1000117).
		return !strings.Contains(s.value, "::") && !strings.HasPrefix(s.value, "-")
	case "submodule":
		return s.value != "diff" // `git log -p` would run git in each submodule that the history names
	case "update":
		return !strings.HasPrefix(s.value, "!") // a command (CVE-2019-19604)
	}
	return true
}

// moduleWorktree reports whether core.worktree of a submodule's git directory
// leads to a place in the workspace. Anywhere else a checkout would overwrite
// files of the host.
func moduleWorktree(gitDir string, s *gitSetting) bool {
	return s.name() == "core.worktree" && !path.IsAbs(s.value) && inside(path.Join(gitDir, s.value))
}
