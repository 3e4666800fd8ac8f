package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of every program.
const (
	MaxTimeout = time.Hour
	MaxStdin   = 1 << 20 // most bytes of standard input
	MaxOutput  = 8 << 20 // most bytes of each output stream

	// drainTime is the time for which processes that could not be killed may keep the
	// output of an ended program open.
	drainTime = 500 * time.Millisecond
)

// Program is one run of a program outside a box. The zero value is refused, and
// so is any value that leaves out Argv, Dir, Boxes or Timeout.
type Program struct {
	Argv    []string      // program and arguments; none may name a path that a box can write
	Data    []string      // further arguments that are not paths for the program; they are not checked
	Dir     string        // working directory, which no box can write; "/" is right for nearly all programs
	Boxes   Boxes         // directories that boxes can write
	Timeout time.Duration // time limit of the whole run, at most MaxTimeout

	// Inherit are the variables of this process. The program gets those in [Passed] and
	// in Pass.
	Inherit []string
	Pass    []string
	Env     []string // further variables, NAME=value; neither names nor values are checked

	Sources []string // files from which code in Data was read; no box can write them
	Cgroup  string   // cgroup v2 directory in which the program gets its cgroup; empty for no cgroup

	Stdin  []byte     // standard input, at most MaxStdin bytes
	Files  []*os.File // the program's descriptors from 3 on
	Stdout io.Writer  // nil discards the output
	Stderr io.Writer
	Output int64 // most bytes of each stream, at most MaxOutput; the program is killed at more
}

// ErrOutput is the cause of an error if a program wrote more than its limit.
var ErrOutput = errors.New("it wrote too much")

// check returns an error if p leaves out a required field, or names a place that a box can
// write.
func (p *Program) check() error {
	switch {
	case len(p.Argv) == 0:
		return errors.New("no program is named")
	case p.Timeout <= 0 || p.Timeout > MaxTimeout:
		return fmt.Errorf("timeout %s: want more than 0 and at most %s", p.Timeout, MaxTimeout)
	case len(p.Stdin) > MaxStdin:
		return fmt.Errorf("%d bytes of standard input: want at most %d", len(p.Stdin), MaxStdin)
	case p.Output < 0 || p.Output > MaxOutput || p.Output == 0 && (p.Stdout != nil || p.Stderr != nil):
		return fmt.Errorf("output limit of %d bytes: want more than 0 and at most %d", p.Output, MaxOutput)
	}
	if err := p.Boxes.Check(p.Dir); err != nil {
		return fmt.Errorf("the working directory: %w", err)
	}
	for _, file := range p.Sources {
		if err := p.Boxes.Check(file); err != nil {
			return err
		}
	}
	for _, arg := range p.Argv[1:] {
		if err := p.Boxes.checkArgument(arg, p.Dir); err != nil {
			return fmt.Errorf("an argument: %w", err)
		}
	}
	return nil
}

// Run runs a program to its end and returns its exit status. When Run returns, all
// processes that the program started have been killed and waited for, with the exception in
// the package comment. If Run returns an error, the exit status is not known: the program
// was refused, could not be started, was killed, ran out of time
// ([context.DeadlineExceeded]) or wrote too much ([ErrOutput]).
func Run(ctx context.Context, p Program) (code int, err error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	env, err := p.Boxes.Environ(p.Inherit, p.Pass, p.Dir)
	if err != nil {
		return 0, err
	}
	path, err := p.Boxes.Find(p.Argv[0], lookup(env, "PATH"))
	if err != nil {
		return 0, err
	}
	late := fmt.Errorf("it did not end within %s: %w", p.Timeout, context.DeadlineExceeded)
	ctx, stop := context.WithTimeoutCause(ctx, p.Timeout, late)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	f, err := newFence(p.Cgroup)
	if err != nil {
		return 0, err
	}
	defer f.close()
	// The path is not resolved further, because programs read their own name: the python3
	// of a virtual environment is a link. No box can change where the link leads.
	cmd := exec.CommandContext(ctx, path)
	cmd.Args[0] = p.Argv[0]
	cmd.Args = append(append(cmd.Args, p.Argv[1:]...), p.Data...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = append(env, p.Env...), p.Dir, p.Files
	cmd.SysProcAttr = f.attr()
	cmd.Cancel = f.kill
	var s streams
	defer s.close()
	if err := s.open(cmd, &p); err != nil {
		return 0, err
	}

	// The kernel kills the program when the thread that started it ends (prctl(2),
	// PR_SET_PDEATHSIG), so this goroutine keeps its thread until the program has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := closeRest(); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	s.copy(&p, func() { cancel(ErrOutput) })
	err = cmd.Wait()
	left := f.end()
	s.drain()
	var exit *exec.ExitError
	switch {
	case context.Cause(ctx) != nil:
		return 0, context.Cause(ctx)
	case left != nil:
		return 0, left
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case err != nil:
		return 0, err // the program was killed by a signal
	}
	return 0, nil
}

// lookup returns the value of a variable.
func lookup(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// closeRest stops programs from inheriting the descriptors with which this process was
// started: a client may have left its own files and sockets open. Descriptors that belljar
// opens are close-on-exec already (close_range(2), since Linux 5.11).
func closeRest() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	return nil
}

// streams contains the ends of a program's pipes, and the goroutines that copy.
type streams struct {
	wg     sync.WaitGroup
	in     *os.File    // our end of standard input; nil if the program gets no input
	out    [2]*os.File // our ends of standard output and standard error
	theirs []*os.File  // the program's ends; closed once the program is started
}

// open gives a program its standard streams. A stream that p leaves out is /dev/null
// (exec.Cmd).
func (s *streams) open(cmd *exec.Cmd, p *Program) error {
	if len(p.Stdin) > 0 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.in, s.theirs, cmd.Stdin = w, append(s.theirs, r), r
	}
	for i, to := range []io.Writer{p.Stdout, p.Stderr} {
		if to == nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.out[i], s.theirs = r, append(s.theirs, w)
		if i == 0 {
			cmd.Stdout = w
		} else {
			cmd.Stderr = w
		}
	}
	return nil
}

// copy is called once the program has its ends. It starts to copy the input and the output.
// full is called if a stream exceeds its limit.
func (s *streams) copy(p *Program, full func()) {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
	if s.in != nil {
		s.wg.Go(func() {
			_, _ = s.in.Write(p.Stdin) // the program need not read all of it
			s.in.Close()
		})
	}
	for i, to := range []io.Writer{p.Stdout, p.Stderr} {
		if to == nil {
			continue
		}
		s.wg.Go(func() {
			n, err := io.Copy(to, io.LimitReader(s.out[i], p.Output+1))
			// The deadline is set by drain. Any other error comes from the writer, which
			// has reached its own limit.
			if n > p.Output || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				full()
			}
		})
	}
}

// drain waits until all output is copied. No process still writes, except one that escaped
// because there is neither a cgroup nor a namespace. For the output of such a process,
// drain waits at most drainTime.
func (s *streams) drain() {
	until := time.Now().Add(drainTime)
	if s.in != nil {
		_ = s.in.SetWriteDeadline(until)
	}
	for _, f := range s.out {
		if f != nil {
			_ = f.SetReadDeadline(until)
		}
	}
	s.wg.Wait()
}

// close closes the ends that are still open.
func (s *streams) close() {
	for _, f := range append(s.theirs, s.in, s.out[0], s.out[1]) {
		if f != nil {
			f.Close()
		}
	}
}

// Self starts this same program as one of its helpers, for example the keeper of cgroups.
// main or a Go init function recognizes the helper by argv[0]. The helper reads no
// argument, variable or file that a box could have written. It runs in "/" with the given
// variables and descriptors. The caller ends the helper and waits for it.
func Self(name string, env []string, files []*os.File, sys *syscall.SysProcAttr) (*os.Process, error) {
	if err := closeRest(); err != nil {
		return nil, err
	}
	if env == nil {
		env = []string{} // nil would pass all our variables
	}
	return os.StartProcess(selfExe, []string{name}, &os.ProcAttr{Dir: "/", Env: env, Files: files, Sys: sys})
}

// selfExe is the path of this program, also after an upgrade has replaced its file.
const selfExe = "/proc/self/exe"

// Helper starts this same program as [Self] does, with a pipe as its descriptor 3. It
// returns the other end of the pipe: when that end is closed, the helper ends. The helper
// leads its own session, so a signal to our process group does not reach it.
func Helper(name string, sys *syscall.SysProcAttr) (*os.Process, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if sys == nil {
		sys = &syscall.SysProcAttr{}
	}
	sys.Setsid = true
	p, err := Self(name, helperEnv, []*os.File{nil, nil, nil, r}, sys)
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return p, w, nil
}

// helperEnv keeps the runtime of a helper small: one thread runs Go code.
var helperEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}

// Successor starts a program that replaces this one: the binary that is now at path, with
// the given arguments and variables, and the same working directory. The successor outlives
// this process, and is in the same cgroup. It gets standard output and standard error, and
// files from descriptor 3 on. The binary may have been replaced, so no box may be able to
// write it or a directory or link on the way to it. The caller waits for the process, or
// releases it.
func Successor(path string, args, env []string, files []*os.File, boxes Boxes) (*os.Process, error) {
	if err := boxes.Check(path); err != nil {
		return nil, fmt.Errorf("the program %s: %w", path, err)
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	if err := closeRest(); err != nil {
		return nil, err
	}
	files = append([]*os.File{nothing, os.Stdout, os.Stderr}, files...)
	return os.StartProcess(path, args, &os.ProcAttr{Env: env, Files: files})
}
