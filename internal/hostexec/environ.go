package hostexec

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Passed are the names of the variables of this process that a program outside a box gets,
// if they are set. In addition it gets the variables that its caller names. None of the
// variables in Passed contains code; some name a place of code, which
// [Boxes.CheckVariable] checks. A name that ends in * stands for all names with this
// beginning. The value of PATH is cleaned.
var Passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "TMPDIR",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
	"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
	"SSH_AUTH_SOCK", "GNUPGHOME", "PASSWORD_STORE_DIR", "KRB5CCNAME",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
	"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
}

// carries matches the names of variables through which code is known to get into a program,
// for example those of the dynamic linker (ld.so(8)), shells, interpreters, git and make.
// Such a list is never complete. It guards only [Program.Pass], which the operator chooses
// by --host-env.
var carries = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(LD_.*|GCONV_PATH|LOCPATH|GLIBC_TUNABLES|` +
		`BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|ZDOTDIR|` +
		`PYTHON.*|NODE_OPTIONS|NODE_PATH|NODE_REPL.*|PERL.*|RUBY.*|GEM_.*|BUNDLE_.*|LUA_.*|PHPRC|PHP_INI_SCAN_DIR|R_(PROFILE|ENVIRON|LIBS).*|` +
		`JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|` +
		`GIT_.*|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|GOFLAGS|npm_config_.*|NPM_CONFIG_.*|OPENSSL_(CONF|MODULES|ENGINES)|` +
		`EDITOR|VISUAL|PAGER|.*_PAGER|MANPAGER|BROWSER|LESSOPEN|LESSCLOSE|SSH_ASKPASS|SUDO_ASKPASS|TERMINFO.*|TERMCAP|TERMPATH)$`)
})

// CheckPass returns an error if a variable cannot be passed to a program.
func CheckPass(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "=*\x00"):
		return fmt.Errorf("%q is not the name of a variable", name)
	case carries().MatchString(name):
		return fmt.Errorf("the variable %s can contain code, or the path of code, so no program outside a box gets it; use a small program that sets it and starts yours", name)
	}
	return nil
}

// passes reports whether a program gets a variable of this process, because the variable is
// in [Passed] or the caller named it.
func passes(name string, also []string) bool {
	return slices.ContainsFunc(Passed, func(p string) bool {
		prefix, many := strings.CutSuffix(p, "*")
		return p == name || many && strings.HasPrefix(name, prefix)
	}) || slices.Contains(also, name)
}

// busAddress is the variable with the address of the user's message bus.
const busAddress = "DBUS_SESSION_BUS_ADDRESS"

// CheckVariable returns an error if the value of a variable names a place that a box can
// write, for example a HOME in the workspace, from which every program reads its
// configuration. It finds a place in a list, and after a scheme such as FILE:. A relative
// path begins in dir. Without ./ or ../ at its beginning, a text counts as a relative path
// only in a variable whose name says that it contains paths; elsewhere it is the name of
// something else, such as owner/name. The value of PATH is not checked, because
// [Boxes.Environ] removes such places from it.
func (b Boxes) CheckVariable(name, value, dir string) error {
	if name == "PATH" {
		return nil
	}
	values := []string{value}
	if name == busAddress {
		plain, err := plainBus(value)
		if err != nil {
			return fmt.Errorf("the variable %s: %w", name, err)
		}
		values = append(values, plain)
	}
	// After su(1), variables may name places of another user.
	useless := func(err error) bool { return tooLong(err) || errors.Is(err, fs.ErrPermission) }
	for _, v := range values {
		if err := b.checkText(v, dir, reading{option: -1, plain: !containsPaths().MatchString(name), useless: useless}); err != nil {
			return fmt.Errorf("the variable %s: %w", name, err)
		}
	}
	return nil
}

// containsPaths matches the names of variables whose value is a path or a list of paths.
var containsPaths = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((PATH|FILE|DIR|HOME|ROOT|CONFIG|SOCK|SOCKET|BUNDLE|CERT)S?|DIRECTORY|DIRECTORIES)$|` +
		`^(SHELL|XAUTHORITY|KRB5CCNAME|DBUS_SESSION_BUS_ADDRESS)$`)
})

// plainBus returns the addresses of a message bus without escapes. It returns an error if
// the kind of an address is not known to only name a place: unixexec: and autolaunch: start
// a program (D-Bus specification, "Server Addresses"). A text without a colon is not an
// address, and no library starts anything for it; /dev/null and "disabled:" are common
// values that keep programs from the bus.
func plainBus(addresses string) (string, error) {
	for address := range strings.SplitSeq(addresses, ";") {
		kind, _, named := strings.Cut(address, ":")
		if named && !slices.Contains([]string{"", "unix", "tcp", "nonce-tcp", "disabled"}, kind) {
			return "", fmt.Errorf("an address begins with %q; want one with unix:, tcp: or nonce-tcp: at its beginning", kind+":")
		}
	}
	plain, err := url.PathUnescape(addresses)
	if err != nil {
		return "", fmt.Errorf("read the addresses: %w", err)
	}
	return plain, nil
}

// Environ returns the environment of a program that runs in dir: the variables of inherited
// that are in [Passed] or in also, and variables that stop Python and git from looking for
// code in a place that a box can write. It fails if [Boxes.CheckVariable] does for one of
// them. The address of a message bus that may start a program is left out instead: few
// programs need the bus.
func (b Boxes) Environ(inherited, also []string, dir string) ([]string, error) {
	for _, name := range also {
		if err := CheckPass(name); err != nil {
			return nil, err
		}
	}
	path := ""
	env := make([]string, 0, len(Passed)+len(fixed))
	for _, v := range inherited {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "PATH":
			path = value
			continue
		case !passes(name, also):
			continue
		case name == busAddress:
			if _, err := plainBus(value); err != nil {
				continue
			}
		}
		if err := b.CheckVariable(name, value, dir); err != nil {
			return nil, err
		}
		env = append(env, v)
	}
	env = append(env, "PATH="+b.cleanPath(path))
	if len(b.dirs) > 0 {
		// This acts only in a program that unsets GIT_DIR: from a directory in such a place,
		// its git does not look above (git(1)).
		env = append(env, "GIT_CEILING_DIRECTORIES="+strings.Join(b.dirs, ":"))
	}
	return append(env, fixed...), nil
}

// fixed are the variables that every program gets.
var fixed = []string{
	// Python loads no module from the directory of a script or from the working directory
	// (Python 3.11; python(1)).
	"PYTHONSAFEPATH=1",
	// A repository's own configuration starts programs: fsmonitor, hooks, filters, diff
	// drivers, and more with each version. So git looks for no repository by itself
	// (git(1), GIT_DIR). A program that names a repository with --git-dir trusts it. Even
	// there, fsmonitor, hooks and ext:: remotes are off, since these settings take
	// precedence over the repository's (git-config(1), GIT_CONFIG_COUNT).
	"GIT_DIR=/dev/null",
	"GIT_CONFIG_COUNT=3",
	"GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=false",
	"GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null",
	"GIT_CONFIG_KEY_2=protocol.ext.allow", "GIT_CONFIG_VALUE_2=never",
	"GIT_TERMINAL_PROMPT=0",
}
