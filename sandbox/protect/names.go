package protect

import (
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// The reasons, in the words that an agent reads.
const (
	byShell  = "a shell runs what it says"
	byEntry  = "it runs when a person enters the directory"
	byEditor = "an editor runs what it says when a person opens the directory"
	byAgent  = "an agent that a person starts in this directory runs what it says"
	byTool   = "a common tool that a person starts in this directory runs what it says"
	byGit    = "git runs what it says for everybody who uses the repository"
	byVCS    = "the version control system runs what it says for everybody who uses the repository"
	bySetID  = "its mode makes it run with the rights of its owner, and a box could change what it does"
)

// protectedNames are the paths, from the top of a workspace, that a box may neither change
// nor make, by the reason. The last part of a path may be a pattern of path.Match. Upper and
// lower case are the same, because a file system may not distinguish them.
// docs/protected-paths.md gives the reason for each, and for what is not here;
// TestProtectedNamesAreDocumented keeps the two in step.
var protectedNames = map[string][]string{
	byShell: {
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
		".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".zcompdump", ".login", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc",
		".inputrc", ".ripgreprc", ".ssh", ".forward", ".pam_environment", ".xprofile", ".xinitrc", ".xsession", ".tmux.conf", ".tmux", ".screenrc",
		".local/bin", ".config/fish", ".config/direnv", ".config/systemd", ".config/autostart", ".config/environment.d",
	},
	byEntry: {
		".envrc", ".envrc.*", ".direnv", ".devenv", ".devbox", ".flox", ".rvmrc", ".autoenv*",
		".mise*", "mise.toml", "mise.*.toml", "mise/config*.toml", ".config/mise*",
	},
	byEditor: {
		".vscode", "*.code-workspace", ".idea", ".fleet", ".zed", ".helix", ".devcontainer", ".devcontainer.json", ".vs", ".theia", ".nova",
		".lapce", "*.sublime-project", ".kateproject", ".externalToolBuilders",
		".vimrc", "_vimrc", ".exrc", "_exrc", ".vim", ".lvimrc", ".local.vimrc", ".nvimrc", ".nvim.lua", ".lazy.lua", ".neoconf.json", ".nlsp-settings",
		".ycm_extra_conf.py", ".dir-locals.el", ".dir-locals-2.el", ".config/nvim",
	},
	byAgent: {
		".claude", ".mcp.json", ".codex", ".gemini", ".cursor", ".windsurf", ".continue", ".kiro", ".qwen", ".amazonq",
		".roo", ".roomodes", ".opencode", "opencode.json", "opencode.jsonc", ".aider.conf.yml", ".crush", ".crush.json", "crush.json",
		".junie", ".trae", ".augment", ".amp", ".kilocode", ".kilocodemodes", ".cline", ".codeium", ".factory", ".goose", ".copilot", ".github/hooks",
		".iflow", ".qoder", ".codebuddy", ".openhands", ".rovodev", ".vibe", ".warp", ".forge", ".zencoder",
		".clinerules/hooks", ".pi", ".grok", ".tabnine",
	},
	byTool: {
		".gdbinit", ".lldbinit", ".pdbrc", ".perldb", ".irbrc", ".pryrc", ".iex.exs", ".erlang", ".ghci", ".ocamlinit", ".octaverc", ".Rprofile", ".Renviron",
	},
	byGit: {".husky", ".gitconfig", ".config/git"},
}

// repositoryNames are such paths in repositories that are not git's. They are looked for
// where git's are: wherever a look or a walk finds a repository.
var repositoryNames = []string{
	".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".hg/hooks",
	".jj/config.toml", ".jj/workspace-config.toml", ".jj/repo/config.toml",
	".sl/config", ".sl/hgrc", ".sl/sharedpath", ".sl/hooks",
	".pijul/config", "_darcs/prefs/defaults",
}

// otherRepositories are the directories of version control systems that are not
// git: those that repositoryNames begin with.
var otherRepositories = func() (all []string) {
	for _, name := range repositoryNames {
		if top, _, _ := strings.Cut(name, "/"); !slices.Contains(all, top) {
			all = append(all, top)
		}
	}
	return all
}()

// isPattern reports whether a name of protectedNames is a pattern for several names.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// matches reports whether the path at is the protected path name, or is in it.
func matches(name, at string) bool {
	return matchParts(strings.Split(strings.ToLower(name), "/"), strings.Split(strings.ToLower(at), "/"))
}

// matchParts is matches for names that are split into their parts, in lower case.
func matchParts(want, have []string) bool {
	if len(have) < len(want) {
		return false
	}
	for i, w := range want {
		if ok, err := path.Match(w, have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// nameTable contains protected names by their first part, so that a path is compared with
// few of them.
type nameTable struct {
	byFirst  map[string][]protectedName
	patterns []protectedName // names of one part that are patterns
}

// protectedName is a protected name in its parts, in lower case.
type protectedName struct {
	parts []string
	why   string
}

// add adds names that are protected for the reason why.
func (t *nameTable) add(why string, names []string) {
	for _, name := range names {
		one := protectedName{strings.Split(strings.ToLower(name), "/"), why}
		if first := one.parts[0]; isPattern(first) {
			t.patterns = append(t.patterns, one)
		} else {
			t.byFirst[first] = append(t.byFirst[first], one)
		}
	}
}

// why returns the reason for which a path is protected, or "". have is the path in its
// parts, in lower case.
func (t *nameTable) why(have []string) string {
	for _, some := range [][]protectedName{t.byFirst[have[0]], t.patterns} {
		for _, one := range some {
			if matchParts(one.parts, have) {
				return one.why
			}
		}
	}
	return ""
}

// The tables of protectedNames and repositoryNames, which are made when the first path is judged.
var (
	protectedTable = sync.OnceValue(func() *nameTable {
		t := &nameTable{byFirst: map[string][]protectedName{}}
		for why, names := range protectedNames {
			t.add(why, names)
		}
		return t
	})
	repositoryTable = sync.OnceValue(func() *nameTable {
		t := &nameTable{byFirst: map[string][]protectedName{}}
		t.add(byVCS, repositoryNames)
		return t
	})
)

// patternAs returns the reason for which a name at the top of the workspace is protected by
// a pattern, or "".
func patternAs(name string) string {
	have := []string{strings.ToLower(name)}
	for _, one := range protectedTable().patterns {
		if matchParts(one.parts, have) {
			return one.why
		}
	}
	return ""
}

// protectedAs returns the reason for which a path of the workspace is protected by its
// name, or "".
func protectedAs(at string) string {
	have := strings.Split(strings.ToLower(at), "/")
	why := protectedTable().why(have)
	if why == "" {
		why = repositoryTable().why(have)
	}
	if why == "" && len(have) > 1 {
		why = repositoryTable().why(have[1:])
	}
	return why
}

// names looks at the paths that are protected by their names. Patterns for names at the top
// of the workspace are left to look.git, which lists the workspace.
func (l *look) names() {
	for why, names := range protectedNames {
		for _, name := range names {
			switch dir, last := path.Split(name); {
			case dir == "" && isPattern(last):
			case dir == "":
				l.seal(l.p.root, name, rule{why: why})
			default:
				l.named(l.p.root, "", name, why)
			}
		}
	}
	l.others(l.p.root, "")
}

// named looks at the path name, of several parts, beneath the directory dir, which has the
// path at in the workspace.
func (l *look) named(dir *os.File, at, name, why string) {
	way, last := path.Split(name)
	sub := l.way(dir, at, way, rule{why: why, through: true})
	if sub == nil {
		return
	}
	defer sub.Close()
	at = path.Join(at, path.Clean(way))
	if !isPattern(last) {
		l.seal(sub, path.Join(at, last), rule{why: why})
		return
	}
	list, err := openToList(sub, ".")
	if err != nil {
		l.fail(at, err)
		return
	}
	defer list.Close()
	err = eachEntry(list, func(e dirent) bool {
		if matches(last, e.name) {
			l.seal(sub, path.Join(at, e.name), rule{why: why})
		}
		return true
	})
	if err != nil {
		l.fail(at, err)
	}
	l.gone(sub, at, last, why)
}

// gone looks at paths that a pattern matched when no command ran, and that do not exist
// now.
func (l *look) gone(dir *os.File, at, pattern, why string) {
	for name, g := range l.p.guards {
		if !g.used && (path.Dir(name) == at || at == "" && !strings.Contains(name, "/")) && matches(pattern, path.Base(name)) {
			l.seal(dir, name, rule{why: why})
		}
	}
}

// others looks at the repositories in a directory that are not git's, and reports whether
// there are any.
func (l *look) others(dir *os.File, at string) bool {
	found := false
	for _, top := range otherRepositories {
		if st, err := statAt(dir, top); err != nil || st == nil {
			continue
		}
		found = true
		for _, name := range repositoryNames {
			if within(top, name) {
				l.named(dir, at, name, byVCS)
			}
		}
	}
	return found
}
