package sandbox

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/limit"
)

// Bounds of one command.
const (
	// maximum size of a script in bytes: the kernel accepts 128 KiB per argument
	// (execve(2), MAX_ARG_STRLEN)
	maxShell = 120 << 10
	maxStdin = 1 << 20
	maxEnv   = 256
	ownFiles = 2 // number of Cmd.Files
)

// Cmd is one command to run in a box.
type Cmd struct {
	// Grant is the grant of the call that runs the command. The grant of the box must cover
	// it.
	Grant policies.Grant
	// Shell is a script for bash, or for /bin/sh in a box whose image has no bash;
	// exclusive with Argv. At most 120 KiB.
	Shell string
	// Argv is a program, looked up in the PATH of the box, and its arguments.
	Argv []string
	// Dir is the working directory, absolute. The default is /workspace; in a box without a
	// workspace it is the directory of its image, or /tmp.
	Dir string
	// Env is added to the environment that the box builds.
	Env map[string]string
	// Environ, if not nil, is the whole environment, NAME=value: the box's own and
	// Env are then ignored. It is allowed only with Argv.
	Environ []string
	// Stdin is what the command reads; empty is /dev/null. At most 1 MiB.
	Stdin []byte
	// Timeout is the longest time that the command may run. It must be above zero,
	// and at most the grant's Wall, or its Background for a background job.
	Timeout time.Duration
	// Background makes the command a job that is listed and counted.
	Background bool

	// In, Out and Err, if set, are the command's streams while it runs. Output that
	// goes to Out and Err is not kept in the Result. An In with the method WriteTo gets
	// the command's pipe itself, and an Out or Err with the method ReadFrom too:
	// nothing is copied between.
	In       io.Reader
	Out, Err io.Writer
	// Record, if set, gets a copy of the kept output as it arrives, from several
	// goroutines. It is closed when the output is complete, before the job is
	// done. If the command does not start, it stays open.
	Record io.WriteCloser
	// Files, if set, are two files that the command gets as descriptors 3 and 4.
	// The command gets copies: the caller closes its own after the start. The
	// files must lead only to the caller, because a box has no other file of
	// the host.
	Files []*os.File
	// Terminal, if set, gives the command a terminal of that size, between In and
	// Out. Err is then not used.
	Terminal *Size
	// Alone makes the box refuse other commands while this one runs. The terminal
	// of this command then has a name, in the box's own /dev/pts.
	Alone bool
}

// validate returns what is wrong with a command before anything is made for it.
func (c *Cmd) validate(b *Box) error {
	if !b.grant.Covers(c.Grant) {
		if c.Grant.IsZero() {
			return &limit.Refusal{Message: "the call has no grant"}
		}
		return &limit.Refusal{Message: fmt.Sprintf(
			"this box was opened with profile %q and cannot be widened to what this call of profile %q was granted",
			b.grant.Profile(), c.Grant.Profile()), Err: ErrWider}
	}
	l := c.Grant.Limits()
	longest := l.Wall
	if c.Background {
		longest = l.Background
	}
	switch {
	case (c.Shell == "") == (len(c.Argv) == 0):
		return &limit.Refusal{Message: "a command is either shell text or an argument list"}
	case len(c.Shell) > maxShell:
		return &limit.Refusal{Message: fmt.Sprintf("the command is %d bytes long, at most %d are allowed; write it to a file first and run that", len(c.Shell), maxShell)}
	case strings.ContainsRune(c.Shell, 0) || slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return &limit.Refusal{Message: "the command contains a NUL character, which no program can be given"}
	case len(c.Stdin) > maxStdin:
		return &limit.Refusal{Message: fmt.Sprintf("stdin is %d bytes long, at most %d are allowed; write it to a file first", len(c.Stdin), maxStdin)}
	case max(len(c.Env), len(c.Environ)) > maxEnv:
		return &limit.Refusal{Message: fmt.Sprintf("%d environment variables, at most %d are allowed", max(len(c.Env), len(c.Environ)), maxEnv)}
	case c.Dir != "" && (!filepath.IsAbs(c.Dir) || strings.ContainsRune(c.Dir, 0)):
		return &limit.Refusal{Message: fmt.Sprintf("working directory %q is not an absolute path in the box", c.Dir)}
	case c.Terminal != nil && (c.In == nil || c.Out == nil):
		return &limit.Refusal{Message: "a terminal needs something to read from and to write to"}
	case len(c.Files) != 0 && (len(c.Files) != ownFiles || c.Terminal != nil):
		return &limit.Refusal{Message: "a command gets two further files or none, and none with a terminal"}
	case c.Environ != nil && c.Shell != "":
		return &limit.Refusal{Message: "a command in a shell has the environment of its box, and no other"}
	case c.Timeout <= 0:
		return &limit.Refusal{Message: fmt.Sprintf("timeout %s is not above zero", c.Timeout)}
	case c.Timeout > longest:
		return &limit.Refusal{Message: fmt.Sprintf("timeout %s is above the %s that profile %q allows; run it in the background, or in smaller steps", c.Timeout, longest, c.Grant.Profile())}
	}
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return &limit.Refusal{Message: fmt.Sprintf("environment variable %q has a name or value that no program can be given", name)}
		}
	}
	return nil
}

// streams reports whether the command's input or output is passed on while it
// runs.
func (c *Cmd) streams() bool {
	return c.In != nil || c.Out != nil || c.Err != nil || c.Terminal != nil
}

// request returns the command in the form that the init takes.
func (c *Cmd) request(b *Box, id uint64) *boxinit.Request {
	r := &boxinit.Request{Op: boxinit.OpStart, ID: id, Argv: c.Argv, Dir: c.dir(b)}
	extra := c.Env
	if c.Shell != "" {
		r.Paths, r.Argv = []string{b.means.shell}, []string{path.Base(b.means.shell), "-c", c.Shell}
		switch {
		case !mayMove(c.Shell) || !follows(b.grant):
		case b.means.shell == plainShell:
			r.Flags |= boxinit.FlagDir
			r.Argv[2] = plainCwd + c.Shell
		default:
			r.Flags |= boxinit.FlagDir
			extra = maps.Clone(extra)
			if extra == nil {
				extra = map[string]string{}
			}
			extra["BASH_ENV"] = cwdScript
		}
	}
	r.Env = c.Environ
	if c.Environ == nil {
		r.Env = merge(b.means.env, extra)
	}
	if c.Shell == "" {
		r.Paths = candidates(c.Argv[0], r.Env)
	}
	if c.Terminal != nil {
		r.Flags |= boxinit.FlagTTY
	}
	if len(c.Files) > 0 {
		r.Flags |= boxinit.FlagControl
	}
	if c.Background || c.streams() {
		r.Flags |= boxinit.FlagPrompt
	}
	if b.means.nested {
		r.Flags |= boxinit.FlagNested
	}
	return r
}

// dir returns the directory in which the command starts.
func (c *Cmd) dir(b *Box) string {
	if c.Dir != "" {
		return c.Dir
	}
	return startDir(b.grant, b.means.runtime())
}

// merge returns base with the extra variables. They replace those of the same
// name.
func merge(base []string, extra map[string]string) []string {
	if len(extra) == 0 {
		return base
	}
	env := make([]string, 0, len(base)+len(extra))
	for _, b := range base {
		name, _, _ := strings.Cut(b, "=")
		if _, ok := extra[name]; !ok {
			env = append(env, b)
		}
	}
	return append(env, environ(extra)...)
}

// candidates returns the paths at which execvp(3) looks for a program.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var paths []string
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			paths = append(paths, path.Join(dir, name))
		}
	}
	return paths
}

// follows reports whether shells of a box with that grant may have the descriptors on which
// they report their last directory. They may not if an operator chose a limit on open files
// with which hardly any program can work.
func follows(g policies.Grant) bool {
	most := g.Limits().OpenFiles
	return most == 0 || most > boxinit.DirFile+1
}

// mayMove reports whether a script may end in another directory than the one it
// began in. Only then the init reports the last directory, which costs a quarter
// of a plain exec. A script cannot move if it consists of plain words and no
// word changes the directory or runs text from elsewhere.
func mayMove(script string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_/.,:=+@%\n"
	if strings.Trim(script, plain) != "" {
		return true
	}
	return slices.ContainsFunc(strings.Fields(script), func(word string) bool {
		switch word {
		case "cd", "pushd", "popd", "eval", "source", ".", "builtin", "command", "alias", "exec":
			return true
		}
		return false
	})
}

// explain returns an error that says what the init could not do for the command. image is
// the image of the box, or nil.
func (c *Cmd) explain(image *images.Tree, r boxinit.Reply, req *boxinit.Request) error {
	switch errno := r.Errno; {
	case r.Step == boxinit.StepDirectory:
		return &limit.Refusal{Message: fmt.Sprintf("the working directory %s cannot be used in the box; give one that exists", req.Dir), Err: errno}
	case r.Step == boxinit.StepClone && errno == unix.EMFILE:
		return &limit.Refusal{Message: "the box runs as many commands as its open_files limit allows; wait for some to end", Err: errno}
	case errno == unix.EAGAIN:
		return &limit.Refusal{Message: "the box has as many processes as its pids limit allows; end some first", Err: errno}
	case r.Step == boxinit.StepDomain:
		return &limit.Refusal{Message: "the command could not be isolated from the other commands of its box, so it did not run", Err: errno}
	case r.Step == boxinit.StepExec && c.Shell != "" && image != nil:
		return &limit.Refusal{Message: fmt.Sprintf("image %q of the box has neither %s nor %s, so it runs programs only, and no shell commands; the operator can import one with a shell", image.Name, shellPath, plainShell), Err: errno}
	case r.Step == boxinit.StepExec && c.Shell != "":
		return &limit.Refusal{Message: "the box has no " + shellPath + "; install bash on this host, or let the profile show the system directories", Err: errno}
	case r.Step == boxinit.StepExec && errno == unix.ENOENT:
		return &limit.Refusal{Message: fmt.Sprintf("the box has no program %s", c.Argv[0]), Err: errno}
	case r.Step == boxinit.StepExec:
		return &limit.Refusal{Message: fmt.Sprintf("the box cannot execute %s, or the interpreter that it names", c.Argv[0]), Err: errno}
	}
	return &limit.Refusal{Message: "the sandbox could not start the command", Err: r.Errno}
}
