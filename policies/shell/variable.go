package shell

import (
	"slices"
	"strings"
	"sync"
)

// Effect says how a variable of the environment can change what runs. The values are in
// order: a larger value changes more.
type Effect int

// The effects.
const (
	NoEffect Effect = iota // data to every program that is known here
	// Sways: programs run or load what the variable names, or read their settings from the
	// place that it names.
	Sways
	// HoldsCode: a shell runs the value of the variable, or reads its text differently
	// because of it.
	HoldsCode
)

// EffectOf returns the effect of a variable with that name and value. It is the only table:
// for NAME=value in front of a command, for export and all other ways in which a script
// sets a variable, and for the env of a call. The name "" means that the name is not known
// and may be any name.
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

// holdsCode reports whether a shell runs the value of a variable, takes it as the name of a
// file to run, or reads every text differently because of it. bash(1) takes functions and
// its options from the environment before it reads the first word.
func holdsCode(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "PS4", "PROMPT_COMMAND", "BASH_ALIASES", "BASH_CMDS", "SHELLOPTS", "BASHOPTS", "BASH_LOADABLES_PATH",
		"POSIXLY_CORRECT", "POSIX_PEDANTIC", "BASH_COMPAT":
		return true
	}
	return strings.HasPrefix(name, "BASH_FUNC_")
}

// tame are values with which a pager, an editor or a wrapper runs nothing that comes from a
// box.
var tame = []string{"", "cat", "less", "more", "true", "false", ":", "/bin/true", "/bin/false", "/bin/cat", "/usr/bin/true", "/usr/bin/false", "/usr/bin/cat"}

// settings reports whether the value of a variable for options contains only harmless
// options. Many builds set these two variables.
func settings(name, value string) bool {
	prefix := map[string]string{"NODE_OPTIONS": "--max-old-space-size=", "GOFLAGS": "-mod="}[name]
	return prefix != "" && strings.HasPrefix(value, prefix) && !strings.ContainsAny(value, " \t\n")
}

// The variables with an effect: whole names, beginnings and ends of names.
// IFS is not among them: no shell takes it from its environment, and what it
// does to an unquoted expansion is not known here anyway.
var (
	swayNames = sync.OnceValue(func() []string {
		return fields(`
		CDPATH GLOBIGNORE HOME SHELL EXINIT VIMINIT FCEDIT VISUAL BROWSER LESS LESSKEY LESSKEYIN INPUTRC ZDOTDIR FPATH FZF_DEFAULT_OPTS FZF_DEFAULT_OPTS_FILE PARALLEL
		GCONV_PATH LOCPATH GETCONF_DIR SASL_PATH KRB5_CONFIG GNUPGHOME GTK_MODULES GTK_PATH GTK_EXE_PREFIX GIO_EXTRA_MODULES GIO_MODULE_DIR GDK_PIXBUF_MODULE_FILE QT_PLUGIN_PATH QML_IMPORT_PATH QML2_IMPORT_PATH GS_LIB GS_OPTIONS
		TAR_OPTIONS TAPE RSYNC_RSH CVS_RSH SVN_SSH GIT_SSH ZIPOPT UNZIP GREP_OPTIONS CURL_HOME WGETRC SYSTEM_WGETRC NETRC HGRCPATH APT_CONFIG RIPGREP_CONFIG_PATH BAT_CONFIG_PATH RCLONE_CONFIG
		CLASSPATH JAVA_HOME JAVACMD JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS IBM_JAVA_OPTIONS OPENJ9_JAVA_OPTIONS M2_HOME CLJ_CONFIG
		MAKE MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKEFILE_LIST M4PATH CONFIG_SITE LIBTOOL YACC LEX HOSTCC CROSS_COMPILE
		CC CXX CPP FC F77 LD AS AR NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS FFLAGS FCFLAGS LDFLAGS COMPILER_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH
		GOFLAGS GOROOT GOTOOLDIR GOTOOLCHAIN GOENV GOPATH GOWORK GOBIN GOCACHE GOMODCACHE GOCACHEPROG GOAUTH GOVCS GOPROXY GOSUMDB GONOSUMDB GOINSECURE GCCGO
		RUSTC RUSTDOC RUSTFLAGS RUSTDOCFLAGS NODE_OPTIONS NODE_PATH PHPRC PHP_INI_SCAN_DIR COMPOSER AWKPATH AWKLIBPATH TCLLIBPATH TCL_LIBRARY TK_LIBRARY EMACSLOADPATH TEXMFCNF TEXINPUTS
		MONO_PATH MONO_CONFIG OCAMLPATH OCAMLFIND_CONF CAML_LD_LIBRARY_PATH GHC_ENVIRONMENT GHC_PACKAGE_PATH PLTCOLLECTS SBCL_HOME
		DJANGO_SETTINGS_MODULE FLASK_APP MYPYPATH PYLINTRC IPYTHONDIR GUNICORN_CMD_ARGS COVERAGE_PROCESS_START COVERAGE_RCFILE VIRTUAL_ENV
		ASAN_OPTIONS LSAN_OPTIONS MSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS
		DOCKER_HOST DOCKER_CONFIG DOCKER_CONTEXT BUILDKIT_HOST COMPOSE_FILE CONTAINERS_CONF KUBECONFIG TF_DATA_DIR TF_REATTACH_PROVIDERS AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AZURE_CONFIG_DIR AZURE_EXTENSION_DIR BOTO_CONFIG
		PSQLRC MYSQL_HOME LIBMYSQL_PLUGINS PGSERVICEFILE PGSYSCONFDIR SCREENRC`)
	})
	swayPrefixes = sync.OnceValue(func() []string {
		return fields(`
		LD_ GLIBC_ OPENSSL_ DBUS_ GST_ MAGICK_ DPKG_ HOMEBREW_ NIX_ VALGRIND_ CCACHE_ DISTCC_ SCCACHE_ CGO_
		GIT_ PYTHON PERL RUBY GEM_ BUNDLE_ LUA_ GUILE_ R_PROFILE R_ENVIRON R_HOME R_LIBS PIP_ PIPX_ UV_ POETRY_ PIPENV_ PDM_ HATCH_ CONDA_ MAMBA_ JUPYTER_ PYTEST_ TOX_
		npm_ NPM_ YARN_ PNPM_ BUN_ DENO_ COREPACK_ TS_NODE_ ELECTRON_ CARGO_ RUSTUP_ RUSTC_ GCC_ CMAKE_ CTEST_ MAVEN_ GRADLE_ ANT_ BAZEL PKG_CONFIG ACLOCAL AUTO
		DOTNET_ CORECLR_ COR_ COMPOSER_ JULIA_ ERL_ ELIXIR_ MIX_ CABAL_ STACK_ OPAM NVM_ PYENV_ RBENV_ NODENV_ ASDF_ MISE_ VOLTA_
		XDG_CONFIG_ XDG_DATA_ XDG_CACHE_ TF_CLI_ TERRAGRUNT_ PACKER_ PULUMI_ VAGRANT_ CLOUDSDK_ ANSIBLE_ HELM_ BASH_`)
	})
	// Ends of names of whole families: GIT_PAGER, MANPAGER, GH_EDITOR, SUDO_ASKPASS,
	// CARGO_BUILD_RUSTC_WRAPPER and the variables of programs that are not known here. JVMs
	// are started with NAME_OPTS, in which -javaagent names code.
	swayEnds = sync.OnceValue(func() []string {
		return fields("PAGER EDITOR BROWSER ASKPASS COMMAND _CMD _RSH _SHELL _HELPER _BIN _EXE _EXECUTABLE _EXECUTABLE_PATH _OPTS _SYMBOLIZER_PATH WRAPPER PRELOAD LESSOPEN LESSCLOSE PLUGIN_PATH")
	})
	// mild are the variables of these families that only contain data.
	mild = sync.OnceValue(func() []string {
		return fields(`
		GIT_TERMINAL_PROMPT GIT_MERGE_AUTOEDIT GIT_OPTIONAL_LOCKS GIT_ADVICE GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES GIT_REFLOG_ACTION GIT_LITERAL_PATHSPECS
		PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONFAULTHANDLER PYTHONSAFEPATH PYTHONNOUSERSITE PYTHONDEVMODE PYTHONOPTIMIZE
		CARGO_INCREMENTAL CARGO_NET_OFFLINE CARGO_BUILD_JOBS PIP_NO_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT PIP_NO_INDEX
		npm_config_yes npm_config_loglevel npm_config_fund npm_config_audit npm_config_progress npm_config_color npm_config_update_notifier
		CGO_ENABLED MIX_ENV COMPOSER_NO_INTERACTION COMPOSER_ALLOW_SUPERUSER COMPOSER_NO_DEV CONDA_DEFAULT_ENV NIX_BUILD_CORES
		DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO DOTNET_SKIP_FIRST_TIME_EXPERIENCE DOTNET_ENVIRONMENT DOTNET_GENERATE_ASPNET_CERTIFICATE
		BASH_ARGV0 BASH_REMATCH BASH_SUBSHELL BASH_VERSION BASH_SOURCE BASH_LINENO`)
	})
	mildPrefixes = sync.OnceValue(func() []string { return fields("GIT_AUTHOR_ GIT_COMMITTER_ CARGO_TERM_ HOMEBREW_NO_") })
)

// sways reports whether a variable has an effect, without looking at its value.
func sways(name string) bool {
	begins := func(p string) bool { return strings.HasPrefix(name, p) }
	ends := func(e string) bool { return strings.HasSuffix(name, e) }
	if slices.Contains(mild(), name) || slices.ContainsFunc(mildPrefixes(), begins) {
		return false
	}
	return slices.Contains(swayNames(), name) || slices.ContainsFunc(swayPrefixes(), begins) || slices.ContainsFunc(swayEnds(), ends)
}

// systemPath reports whether a PATH names only directories that no box can write. An empty
// part is the working directory.
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

// refers reports whether the option -n of a command that declares variables makes a
// variable a reference to another one. Then every way to set the reference sets the other
// variable, for example PS4, and a for loop makes it refer to another variable in each
// round.
func refers(variant string) bool {
	return variant == "declare" || variant == "typeset" || variant == "local"
}

// assignment reads an operand NAME=value, which sets a variable for the program that a
// later operand names. why is what cannot be known about that program, or "". ok is false
// if the word is not such an operand.
func assignment(w Word) (one Assign, why string, ok bool) {
	name, value, ok := strings.Cut(w.Text, "=")
	if !ok || w.Certainty == Any {
		return Assign{}, "", false
	}
	one = given(name, Word{Text: value, Certainty: w.Certainty})
	if one.Effect == HoldsCode {
		why = "it sets " + name + ", whose text a shell runs"
	}
	return one, why, true
}

// given returns a variable that a program sets for another program.
func given(name string, value Word) Assign {
	return Assign{Name: name, Value: value, Effect: EffectOf(name, value)}
}
