package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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
	MaxStdin   = 1 << 20 // bytes
	MaxOutput  = 8 << 20 // bytes of each stream

	// drainTime is how long the output of a program that has ended may be held
	// open by what could not be killed.
	drainTime = 500 * time.Millisecond
)

// Program is one run of a program outside a box. The zero value is refused, and
// so is any value that leaves out Argv, Dir, Boxes or Timeout.
type Program struct {
	Argv    []string      // program and arguments; none may name a path that a box can write
	Data    []string      // further arguments, which are no paths to the program and are not looked at
	Dir     string        // the working directory, which no box can write; "/" serves nearly all
	Boxes   Boxes         // what boxes can write
	Timeout time.Duration // of the whole run, at most MaxTimeout

	// Inherit are the variables of this process. The program gets those in [Passed] and
	// in Pass.
	Inherit []string
	Pass    []string
	Env     []string // variables of the caller's own, NAME=value, which are not looked at

	Sources []string // files that code in Data was read from; no box can write them
	Cgroup  string   // a cgroup v2 directory, in which the program gets a cgroup; empty for none

	Stdin  []byte     // at most MaxStdin
	Files  []*os.File // descriptors 3 and up
	Stdout io.Writer  // nil drops what is written
	Stderr io.Writer
	Output int64 // most bytes of each stream, at most MaxOutput; the program is killed at more
}

// ErrOutput is the cause where a program wrote more than it may.
var ErrOutput = errors.New("it wrote too much")

// check refuses what would leave a program's surroundings to chance.
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
		if err := p.checkArgument(arg); err != nil {
			return fmt.Errorf("an argument: %w", err)
		}
	}
	return nil
}

// partings stand before and behind a path in an argument: --file=/a, @/a, -v/a:/b,
// file:///a, or the script of sh -c.
const partings = " \t\n=:,;@'\"`()[]{}<>|&$!?*#"

// checkArgument refuses an argument in which a path that a box can write is named: at its
// beginning, behind a parting, or behind the letter of an option (-I/a). One with a slash in
// it may also begin in the working directory. Other meanings that a program gives to an
// argument are not known here.
func (p *Program) checkArgument(arg string) error {
	option := -1
	if strings.HasPrefix(arg, "-") {
		option = strings.IndexByte(arg, '/')
	}
	for i := range len(arg) {
		if i != option && i > 0 && !strings.ContainsRune(partings, rune(arg[i-1])) {
			continue
		}
		// Names have any characters in them, so the rest as a whole may be the path. It
		// is followed only where it is a value: a script has many words.
		rest := arg[i:]
		if !strings.Contains(rest, "/") {
			break // a word, and not a path
		}
		first := rest
		if end := strings.IndexAny(rest, partings); end >= 0 {
			first = rest[:end]
		}
		if dir, in := p.Boxes.holds(filepath.Clean(p.from(rest))); in {
			return fmt.Errorf("%s lies in %s, which a box can write", rest, dir)
		}
		paths := []string{first, rest}
		if i > 0 && arg[i-1] != '=' {
			paths = paths[:1]
		}
		for _, path := range paths {
			if !strings.Contains(path, "/") {
				continue
			}
			// A text that is too long to be a path names no file.
			if err := p.Boxes.Check(p.from(path)); err != nil && !errors.Is(err, syscall.ENAMETOOLONG) {
				return err
			}
		}
	}
	return nil
}

// from is a path as the program sees it, which starts in Dir.
func (p *Program) from(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return p.Dir + "/" + path
}

// Run runs a program to its end and returns its exit status. When it returns, all
// that the program started has been killed and waited for (the package comment
// says where that is not so). With an error the exit status is not known: the
// program was refused, could not be started, was killed, ran out of time
// ([context.DeadlineExceeded]) or wrote too much ([ErrOutput]).
func Run(ctx context.Context, p Program) (code int, err error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	env, err := p.Boxes.Environ(p.Inherit, p.Pass)
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
	// The path is not resolved further, because programs read their own name: a
	// python3 in a virtual environment is a link. No box can change what it means.
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

	// The program dies with the thread that started it (prctl(2),
	// PR_SET_PDEATHSIG), so this goroutine keeps its thread until the end.
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
		return 0, err // signal: killed
	}
	return 0, nil
}

// lookup is the value of a variable.
func lookup(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// closeRest keeps from programs what this process was started with: a client may
// have left descriptors open in it, to its own files and sockets. All that belljar
// opens is closed on exec already (close_range(2), since Linux 5.11).
func closeRest() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	return nil
}

// streams are the ends of a program's pipes, and the goroutines that copy.
type streams struct {
	wg     sync.WaitGroup
	in     *os.File    // our end of standard input; nil if the program gets none
	out    [2]*os.File // our ends of standard output and standard error
	theirs []*os.File  // the program's ends, until it is started
}

// open gives a program its standard streams. A stream that the Program leaves out
// is /dev/null (exec.Cmd).
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

// copy moves what is written and read, once the program has its ends. full is
// called when a stream has more than it may.
func (s *streams) copy(p *Program, full func()) {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
	if s.in != nil {
		s.wg.Go(func() {
			_, _ = s.in.Write(p.Stdin) // it need not read all
			s.in.Close()
		})
	}
	for i, to := range []io.Writer{p.Stdout, p.Stderr} {
		if to == nil {
			continue
		}
		s.wg.Go(func() {
			n, err := io.Copy(to, io.LimitReader(s.out[i], p.Output+1))
			// A deadline is the end of drain. Any other error is the writer's, which
			// has had enough.
			if n > p.Output || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				full()
			}
		})
	}
}

// drain waits until all is copied. Nobody writes any more, but for what escaped
// where there is neither a cgroup nor a namespace: that is not waited for.
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

// Self starts this same program as one of its helpers, by a name that its main
// or an init knows: of the keeper of cgroups, for example. The helper reads no
// argument, no variable and no file that a box could have written. It runs in "/"
// with the variables and descriptors that are given. The caller ends it and waits
// for it.
func Self(name string, env []string, files []*os.File, sys *syscall.SysProcAttr) (*os.Process, error) {
	if err := closeRest(); err != nil {
		return nil, err
	}
	if env == nil {
		env = []string{} // nil would be all of ours
	}
	return os.StartProcess(selfExe, []string{name}, &os.ProcAttr{Dir: "/", Env: env, Files: files, Sys: sys})
}

// selfExe is this program, even after its file was replaced by an upgrade.
const selfExe = "/proc/self/exe"

// Helper starts this same program as [Self] does, with a pipe as its descriptor 3,
// whose other end it returns: the helper ends when that is closed. It leads a
// session of its own, so a signal to our process group does not reach it.
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

// helperEnv keeps the runtime of a helper small: one thread for Go code.
var helperEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}

// Successor starts a program that takes the place of this one: the binary that stands now
// where this one was started from, with the same arguments, variables and working directory.
// It lives on when this process ends, and is in the same cgroup. It gets standard error and
// output, and files from descriptor 3 on. No box may be able to write the binary, or what
// leads to it: it may have been exchanged. The caller waits for it, or releases it.
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
