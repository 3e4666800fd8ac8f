package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Run starts the program args[0] with the remaining arguments, and returns its standard
// output. The environment is env and a PATH, nothing else. The program reads stdin; a nil
// stdin is an empty input. It ends when ctx ends. If the exit status is not 0, Run or the
// last Read returns an error that contains what the program wrote to its standard error. If
// the program is not installed, the error wraps exec.ErrNotFound or fs.ErrNotExist.
type Run func(ctx context.Context, args, env []string, stdin io.Reader) (stdout io.Reader, err error)

// Args returns the command line of a git command that starts no other program, whatever
// the repository's configuration says. It works in the directory dir.
func Args(dir string, command ...string) []string {
	args := []string{
		"git", "-C", dir, "--no-pager", "--literal-pathspecs",
		"-c", "safe.directory=*",
		"-c", "core.fsmonitor=",
		"-c", "core.hooksPath=/dev/null",
		"-c", "core.pager=cat",
		"-c", "core.sshCommand=false",
		"-c", "core.gitProxy=false",
		"-c", "core.askPass=false",
		"-c", "core.attributesFile=/dev/null",
		"-c", "core.excludesFile=/dev/null",
		"-c", "core.quotePath=true",
		"-c", "credential.helper=",
		"-c", "protocol.allow=never",
		"-c", "submodule.recurse=false",
		"-c", "diff.external=",
		"-c", "diff.orderFile=/dev/null",
		"-c", "diff.ignoreSubmodules=all",
		"-c", "diff.submodule=short",
		"-c", "log.showSignature=false",
		"-c", "log.showRoot=true",
		"-c", "log.follow=false",
		"-c", "log.mailmap=true",
		"-c", "gpg.program=false",
		"-c", "gpg.ssh.program=false",
		"-c", "gpg.x509.program=false",
		"-c", "gpg.ssh.defaultKeyCommand=false",
	}
	return append(args, command...)
}

// diffs returns the command line of a command that compares files: its options start no
// program of the repository, and make the form of the output independent of the
// configuration.
func diffs(command string, more ...string) []string {
	return append([]string{
		command, "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all",
		"--find-renames=50%", "-l1000", "--diff-algorithm=myers", "--inter-hunk-context=0",
		"--relative", "--src-prefix=a/", "--dst-prefix=b/",
	}, more...)
}

// Env returns the environment of git, without a PATH. Git searches for the repository from
// the working directory up to root, and not above. The configuration of the machine and of
// the user is left out. No transport is allowed, git does not prompt, and nothing is
// written.
func Env(root string) []string { return settings(root, nil) }

// settings returns the environment with further settings, which override those of the
// repository. In the environment, a key may contain an equals sign.
func settings(root string, keys []string) []string {
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=",
		"GIT_PROTOCOL_FROM_USER=0",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_CEILING_DIRECTORIES=" + above(root),
		"GIT_PAGER=cat",
		"GIT_ASKPASS=false",
		"SSH_ASKPASS=false",
		"GIT_SSH_COMMAND=false",
		"GIT_EDITOR=false",
		"HOME=/dev/null",
		"XDG_CONFIG_HOME=/dev/null",
		"LC_ALL=C",
		"TZ=UTC",
	}
	if len(keys) == 0 {
		return env
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(keys)))
	for i, key := range keys {
		value := "" // an empty command starts no program
		if strings.HasSuffix(key, ".required") {
			value = "false"
		}
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// above returns the directory that contains root. Git does not search in the directory
// above, but it does search in root.
func above(root string) string {
	if i := strings.LastIndexByte(strings.TrimRight(root, "/"), '/'); i > 0 {
		return root[:i]
	}
	return "/"
}

// repo is a repository that commands may read.
type repo struct {
	run  Run
	dir  string // the measured directory
	root string // the highest directory in which git searches for a repository
	top  string // the directory of the repository's files
}

// stream starts a git command.
func (r repo) stream(ctx context.Context, env []string, command ...string) (io.Reader, error) {
	return r.run(ctx, Args(r.dir, command...), env, nil)
}

// maxAnswer is the longest output of a git command that ask reads, in bytes.
const maxAnswer = 1 << 20

// ask returns the whole output of a git command whose output is short.
func (r repo) ask(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := r.stream(ctx, Env(r.root), command...)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(out, maxAnswer+1))
	switch {
	case err != nil:
		return "", err
	case n > maxAnswer:
		return "", errors.New("the answer of git is too long")
	}
	return text.String(), nil
}

// clause returns the text of an error in one line, for a [code.Gap].
func clause(err error) string {
	var text strings.Builder
	for _, r := range strings.Join(strings.Fields(err.Error()), " ") {
		if text.Len() >= 200 {
			text.WriteString("...")
			break
		}
		if unicode.IsGraphic(r) && r != unicode.ReplacementChar {
			text.WriteRune(r)
		}
	}
	return text.String()
}
