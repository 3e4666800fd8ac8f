package images

import (
	"fmt"
	"path"
	"strings"
)

// Runtime is what an image says about the programs in it, as far as a box uses it. How a
// container would be started is not used: a box runs what its caller asks for.
type Runtime struct {
	Env  []string `json:"env,omitempty"`  // "NAME=value"
	User string   `json:"user,omitempty"` // the user that its maker intended; a box has one user
	Dir  string   `json:"dir,omitempty"`  // working directory of commands, absolute; empty for none, or the root
}

// Bounds of the environment of an image.
const (
	maxEnv      = 256
	maxEnvBytes = 64 << 10
)

// check refuses values that cannot be passed to a program, and brings Dir into one form.
func (r *Runtime) check() error {
	total := 0
	for _, e := range r.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("its environment has an entry %.80q, which is not NAME=value", e)
		}
		total += len(e)
	}
	switch {
	case len(r.Env) > maxEnv || total > maxEnvBytes:
		return fmt.Errorf("its environment has %d variables of %d bytes, at most %d of %d are allowed", len(r.Env), total, maxEnv, maxEnvBytes)
	case len(r.User) > 256 || strings.ContainsFunc(r.User, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("its user %.80q is not a name", r.User)
	case strings.Trim(r.Dir, "/") == "":
		// To docker an image without a working directory is one whose commands start in its
		// root. Some of its builders write that root into each such image.
		r.Dir = ""
		return nil
	}
	_, err := entryPath(strings.TrimPrefix(r.Dir, "/"))
	if err != nil || strings.ContainsFunc(r.Dir, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Errorf("its working directory %.80q is not a path in it", r.Dir)
	}
	r.Dir = path.Clean("/" + r.Dir)
	return nil
}
