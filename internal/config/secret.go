package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// Bounds for reading a secret.
const (
	secretMost     = 64 << 10 // size of a secret, in bytes
	secretPatience = 10 * time.Second
)

// ReadSecret reads the value of a secret from the place where the operator keeps it. The
// end of its last line is not part of the value. A place that a box can write is refused:
// an agent would choose which of the operator's files is sent as a secret, or which program
// runs on the host. base says how programs run on the host. Errors name the secret and
// never contain a part of its value.
func ReadSecret(ctx context.Context, name string, s policies.Secret, base hostexec.Program) (string, error) {
	text, err := secretText(ctx, s, base)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	text = strings.TrimRight(text, "\r\n")
	switch {
	case text == "":
		return "", fmt.Errorf("secret %s: it is empty", name)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "", fmt.Errorf("secret %s: it contains a line break or control character, which a header must not contain", name)
	}
	return text, nil
}

func secretText(ctx context.Context, s policies.Secret, base hostexec.Program) (string, error) {
	switch {
	case s.Env != "":
		text, ok := os.LookupEnv(s.Env)
		if !ok {
			return "", fmt.Errorf("belljar's environment has no variable %s", s.Env)
		}
		return text, nil
	case s.File != "":
		if err := base.Boxes.Check(s.File); err != nil {
			return "", err
		}
		return secretFile(s.File)
	case len(s.Command) > 0:
		return secretCommand(ctx, s.Command, base)
	}
	return "", errors.New("the policy does not say where it is")
}

// secretFile reads a file that only its owner can read or write: other users could have
// changed it.
func secretFile(name string) (string, error) {
	// An ordinary open of a pipe would block until the pipe has a writer (fifo(7)).
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others can read or write %s; run chmod 600 on it", name)
	case !ours(info):
		return "", fmt.Errorf("%s belongs to another user, who could replace the secret", name)
	}
	text, err := ReadBounded(f, secretMost)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(text), nil
}

// ours reports whether a file belongs to the user of this process, or to root.
func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// secretCommand runs a program on the host and returns its output. The program's standard
// error may contain anything, so it is not part of an error.
func secretCommand(ctx context.Context, argv []string, base hostexec.Program) (string, error) {
	var out bytes.Buffer
	base.Argv, base.Timeout, base.Stdout, base.Output = argv, secretPatience, &out, secretMost
	code, err := hostexec.Run(ctx, base)
	switch {
	case errors.Is(err, hostexec.ErrOutput):
		return "", fmt.Errorf("run %s: it printed more than %d bytes", argv[0], secretMost)
	case err != nil:
		return "", fmt.Errorf("run %s: %w", argv[0], err)
	case code != 0:
		return "", fmt.Errorf("run %s: exit status %d", argv[0], code)
	}
	return out.String(), nil
}
