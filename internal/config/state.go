package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// UserPolicy returns the path of this user's policy file, which need not exist. It is empty
// if the user has no configuration directory.
func UserPolicy() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "belljar", "policy.yaml")
}

// UserDir returns the directory of the user's own configuration; empty if UserPolicy is empty.
func UserDir() string {
	if file := UserPolicy(); file != "" {
		return filepath.Dir(file)
	}
	return ""
}

// FindState returns the directory for what outlives the program: name, or if name is empty,
// the user's directory (XDG Base Directory Specification). The directory need not exist.
func FindState(name string) (string, error) {
	if name == "" {
		name = os.Getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(name) { // the specification says to ignore a relative path
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("state: %w; name a directory with --state", err)
			}
			name = filepath.Join(home, ".local", "state")
		}
		name = filepath.Join(name, "belljar")
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("state %s: %w", name, err)
	}
	return path, nil
}

// KnownState returns the state directory of the servers that a command asks about. A
// directory that the command line names must exist: otherwise the command would only find
// nothing in it.
func KnownState(name string) (string, error) {
	state, err := FindState(name)
	if err == nil && name != "" {
		_, err = os.Stat(state)
		if err != nil {
			err = fmt.Errorf("state %s: %w; --state names the directory that `belljar serve` was given", name, errors.Unwrap(err))
		}
	}
	return state, err
}

// Writable returns an error if this user cannot write a directory, or cannot create it if
// it does not exist. It changes nothing. Without this check, each part that writes there
// would fail later with its own message.
func Writable(dir string) error {
	at := dir
	for {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			at = filepath.Dir(at)
			continue
		}
		if err == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		if err == nil {
			err = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		}
		if err != nil {
			return fmt.Errorf("state %s: this user cannot write %s: %w; choose another --state", dir, at, err)
		}
		return nil
	}
}

// StateArgument returns the argument --state for a directory, to be added to a command that
// is shown to people; empty if dir is empty.
func StateArgument(dir string) string {
	if dir == "" {
		return ""
	}
	return " --state " + Quote([]string{dir})
}

// Quote returns argv as a shell would read it. The policy judges this text.
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,") != "" {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// AuditDir returns the directory of the audit log if the policy names no path.
func AuditDir(state string) string { return filepath.Join(state, "audit") }

// EnginesDir returns the directory of the engine files that replace belljar's own or add to
// them; empty if it does not exist. It is next to the user's policy, where no agent can
// write.
func EnginesDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "belljar", "engines")
	if _, err := os.Stat(dir); err != nil {
		return "" // only the engines that are part of belljar are used
	}
	return dir
}
