package shell

import (
	"slices"
	"strings"
)

// Effect says what a variable of the environment can change about what runs.
// The values are in order: the larger one changes more.
type Effect int

// The effects.
const (
	NoEffect Effect = iota // data to every program that is known here
	// Sways: programs run or load what the variable names, or read their settings
	// where it says.
	Sways
	// HoldsCode: a shell runs what the variable holds, or reads its text otherwise.
	HoldsCode
)

// EffectOf is what a variable of that name and value changes. It is the one
// table for NAME=value in front of a command, for export and all other ways in
// which a script sets a variable, and for the env of a call. A name that is not
// known ("") may be any.
func EffectOf(name string, value Word) Effect {
	switch {
	case name == "", holdsCode(name):
		return HoldsCode
	case name == "PATH":
		if value.Certainty == Exact && systemPath(value.Text) {
			return NoEffect
		}
		return Sways
	case !sways(name):
		return NoEffect
	case value.Certainty == Exact && (slices.Contains(tame, value.Text) || settings(name, value.Text)):
		return NoEffect
	}
	return Sways
}

// holdsCode reports whether a shell runs what a variable holds, reads it as the
// name of a file to run, or reads every text otherwise because of it. bash(1)
// takes functions and its options from the environment before it reads the
// first word.
func holdsCode(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "PS4", "PROMPT_COMMAND", "BASH_ALIASES", "BASH_CMDS", "SHELLOPTS", "BASHOPTS", "BASH_LOADABLES_PATH",
		"POSIXLY_CORRECT", "POSIX_PEDANTIC", "BASH_COMPAT":
		return true
	}
	return strings.HasPrefix(name, "BASH_FUNC_")
}

// tame are values with which a pager, an editor or a wrapper runs nothing that a
// box has made.
var tame = []string{"", "cat", "less", "more", "true", "false", ":", "/bin/true", "/bin/false", "/bin/cat", "/usr/bin/true", "/usr/bin/false", "/usr/bin/cat"}

// settings reports whether a value of a variable that takes options holds
// harmless ones only. These two are set by every second build.
func settings(name, value string) bool {
	prefix := map[string]string{"NODE_OPTIONS": "--max-old-space-size=", "GOFLAGS": "-mod="}[name]
	return prefix != "" && strings.HasPrefix(value, prefix) && !strings.ContainsAny(value, " \t\n")
}

// The variables with an effect: whole names, beginnings and ends of names.
// IFS is not among them: no shell takes it from its environment, and what it
// does to an unquoted expansion is not known here anyway.
var (
	swayNames = fields(`
		CDPATH GLOBIGNORE HOME SHELL EXINIT VIMINIT FCEDIT VISUAL BROWSER LESS LESSKEY LESSKEYIN INPUTRC ZDOTDIR FPATH
		GCONV_PATH LOCPATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES GTK_MODULES QT_PLUGIN_PATH
		TAR_OPTIONS TAPE RSYNC_RSH CVS_RSH SVN_SSH GIT_SSH ZIPOPT UNZIP GREP_OPTIONS CURL_HOME WGETRC SYSTEM_WGETRC NETRC HGRCPATH
		CLASSPATH JAVA_HOME JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS SBT_OPTS M2_HOME JULIA_LOAD_PATH
		MAKE MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKEFILE_LIST M4PATH
		CC CXX CPP LD AS AR NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS COMPILER_PATH LIBRARY_PATH CPATH
		GOFLAGS GOROOT GOTOOLDIR GOTOOLCHAIN GOENV GOPATH GOWORK GOCACHEPROG GOAUTH GOVCS GOPROXY CGO_CFLAGS CGO_CPPFLAGS CGO_CXXFLAGS CGO_LDFLAGS
		RUSTC RUSTDOC RUSTFLAGS RUSTDOCFLAGS NODE_OPTIONS NODE_PATH PHPRC PHP_INI_SCAN_DIR AWKPATH AWKLIBPATH
		DOCKER_HOST DOCKER_CONFIG KUBECONFIG AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE PSQLRC MYSQL_HOME PGSERVICEFILE SCREENRC`)
	swayPrefixes = fields(`
		LD_ GLIBC_ GIT_ PYTHON PERL RUBY GEM_ BUNDLE_ LUA_ GUILE_ R_PROFILE R_ENVIRON R_HOME R_LIBS PIP_ UV_ POETRY_ PIPENV_ PYTEST_ TOX_
		npm_ NPM_ YARN_ PNPM_ BUN_ DENO_ COREPACK_ CARGO_ RUSTUP_ RUSTC_ GCC_ CMAKE_ CTEST_ MAVEN_ GRADLE_ ANT_ PKG_CONFIG ACLOCAL AUTO
		XDG_CONFIG_ XDG_DATA_ TF_CLI_ ANSIBLE_ HELM_ BASH_`)
	// Families: GIT_PAGER, MANPAGER, GH_EDITOR, SUDO_ASKPASS, CARGO_BUILD_RUSTC_WRAPPER and what the next program calls its own.
	swayEnds = fields("PAGER EDITOR BROWSER ASKPASS _COMMAND _CMD _RSH _SHELL WRAPPER PRELOAD LESSOPEN LESSCLOSE PLUGIN_PATH")
	// mild are those of the families that hold data.
	mild = fields(`
		GIT_TERMINAL_PROMPT GIT_MERGE_AUTOEDIT GIT_OPTIONAL_LOCKS GIT_ADVICE GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES GIT_REFLOG_ACTION GIT_LITERAL_PATHSPECS
		PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONFAULTHANDLER PYTHONSAFEPATH PYTHONNOUSERSITE PYTHONDEVMODE PYTHONOPTIMIZE
		CARGO_INCREMENTAL CARGO_NET_OFFLINE CARGO_BUILD_JOBS PIP_NO_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT PIP_NO_INDEX
		npm_config_yes npm_config_loglevel npm_config_fund npm_config_audit npm_config_progress npm_config_color npm_config_update_notifier
		BASH_ARGV0 BASH_REMATCH BASH_SUBSHELL BASH_VERSION BASH_SOURCE BASH_LINENO`)
	mildPrefixes = fields("GIT_AUTHOR_ GIT_COMMITTER_ CARGO_TERM_")
)

// sways reports whether a variable has an effect, whatever its value.
func sways(name string) bool {
	begins := func(p string) bool { return strings.HasPrefix(name, p) }
	ends := func(e string) bool { return strings.HasSuffix(name, e) }
	if slices.Contains(mild, name) || slices.ContainsFunc(mildPrefixes, begins) {
		return false
	}
	return slices.Contains(swayNames, name) || slices.ContainsFunc(swayPrefixes, begins) || slices.ContainsFunc(swayEnds, ends)
}

// systemPath reports whether a PATH names nothing but directories that no box
// can write. An empty part is the working directory.
func systemPath(list string) bool {
	for dir := range strings.SplitSeq(list, ":") {
		switch strings.TrimSuffix(dir, "/") {
		case "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/games", "/usr/local/games", "/usr/local/go/bin", "/snap/bin":
		default:
			return false
		}
	}
	return true
}
