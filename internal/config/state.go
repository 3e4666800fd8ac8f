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

// UserPolicy is the policy file of this user, which need not exist; empty where
// there can be none.
func UserPolicy() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "belljar", "policy.yaml")
}

// UserDir is where the user's own configuration is; empty for nowhere.
func UserDir() string {
	if file := UserPolicy(); file != "" {
		return filepath.Dir(file)
	}
	return ""
}

// FindState is the directory for what outlives the program: the named one,
// else that of the user (XDG Base Directory Specification). It need not exist.
func FindState(name string) (string, error) {
	if name == "" {
		name = os.Getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(name) { // a relative one is to be ignored
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

// KnownState is the state directory of servers that a command asks about. One that
// the command line names must be there: nothing would be found in it.
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

// Writable checks that this user can write a directory, or make it where it is not
// there, and changes nothing. Later each part that keeps something there would fail
// in words of its own.
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

// StateArgument is --state with a directory, to go behind a command that is shown;
// empty for no directory.
func StateArgument(dir string) string {
	if dir == "" {
		return ""
	}
	return " --state " + Quote([]string{dir})
}

// Quote is argv as a shell would read it back, for the policy's eyes.
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

// AuditDir is the directory of the log if the policy gives no path.
func AuditDir(state string) string { return filepath.Join(state, "audit") }

// EnginesDir is where files of engines lie that replace those of belljar or
// add to them: beside the user's policy, out of the agent's reach.
func EnginesDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "belljar", "engines")
	if _, err := os.Stat(dir); err != nil {
		return "" // the engines that come with belljar do
	}
	return dir
}
