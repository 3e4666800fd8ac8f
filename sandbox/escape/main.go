package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// proberName is the argv[0] under which this program is the prober.
const proberName = "belljar-probe"

// The tasks of a prober, given as its first argument. The second argument is the id of a
// probe, or a token or marker to carry.
const (
	partTry    = "try"
	partPlant  = "plant"
	partHold   = "hold"   // be a victim
	partIdle   = "idle"   // wait for the end of standard input
	partLinger = "linger" // try to outlive a call
	partHop    = "hop"    // try to outlive a call, as a series of new processes
	partBeside = "beside" // be a victim in the prober's own box
	partTouch  = "touch"  // try all contacts with the victim of beside
)

// mostInput bounds what a prober reads as its facts, in bytes.
const mostInput = 1 << 20

// The steps that a prober reports.
const (
	begun = "begun"
	done  = "done"
)

// reply is a line of a prober's standard output.
type reply struct {
	Step    string `json:"step"`
	ID      string `json:"id"`
	Through bool   `json:"through"`
	Detail  string `json:"detail,omitempty"`
	Fault   string `json:"fault,omitempty"` // why the act could not be tried
}

// Main becomes the prober if this program was started as one, and then does
// not return. It belongs at the head of main and TestMain.
func Main() {
	if len(os.Args) < 2 || filepath.Base(os.Args[0]) != proberName {
		return
	}
	// Some acts apply to one thread, and some end with the thread that began them.
	runtime.LockOSThread()
	// A file that grows too large must be an error for the prober, and not end it
	// (setrlimit(2), RLIMIT_FSIZE). The same is true when the prober closes its own
	// terminal.
	signal.Ignore(unix.SIGXFSZ, unix.SIGHUP)
	var arg string
	if len(os.Args) > 2 {
		arg = os.Args[2]
	}
	var err error
	switch os.Args[1] {
	case partTry, partPlant:
		err = probe(os.Args[1], arg)
	case partHold:
		err = hold(arg)
	case partBeside:
		err = beside(arg)
	case partTouch:
		err = touchAll(arg)
	case partIdle:
		err = idle()
	case partLinger:
		linger(os.Args[3:])
	case partHop:
		err = hop(arg, os.Args[3:])
	default:
		err = fmt.Errorf("no part %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this is a main
	}
	os.Exit(0) //nolint:forbidigo // this is a main
}

// probe does one act and reports the outcome.
func probe(part, id string) error {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, mostInput)) //nolint:forbidigo // the reader has a limit
	if err != nil {
		return fmt.Errorf("read the facts: %w", err)
	}
	var f Facts
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("read the facts: %w", err)
	}
	p, ok := find(id)
	if !ok {
		return fmt.Errorf("no probe %q", id)
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(reply{Step: begun, ID: id}); err != nil {
		return err
	}
	r := reply{Step: done, ID: id}
	switch {
	case part == partPlant:
		if err := p.plant(&f); err != nil {
			r.Fault = err.Error()
		}
	case p.try != nil:
		r.Detail, err = p.try(&f)
		r.Through = err == nil
		if err != nil {
			r.Detail = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	if err := out.Encode(r); err != nil {
		return err
	}
	if part == partPlant && p.cut {
		linger([]string{"deaf"})
	}
	return nil
}

// idle reports that it has started, and stays until its standard input ends.
func idle() error {
	if _, err := os.Stdout.WriteString("\n"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// child starts another prober of this program, which is idle until stop is called.
func child() (pid int, stop func(), err error) {
	c := prober(partIdle)
	in, err := c.StdinPipe()
	if err != nil {
		return 0, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := c.Start(); err != nil {
		return 0, nil, err
	}
	stop = func() {
		in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	// Start returns during the exec, before the new program's memory exists. The
	// first byte shows that the program runs.
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		stop()
		return 0, nil, err
	}
	return c.Process.Pid, stop, nil
}

// prober returns a command that runs this program as a prober.
func prober(part string, args ...string) *exec.Cmd {
	c := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{proberName, part}, args...)}
	c.WaitDelay = 250 * time.Millisecond
	return c
}

// toChild is an act on a child of the prober. The kernel lets every process do such acts to
// its child.
func toChild(do func(pid int) (string, error)) act {
	return func(*Facts) (string, error) {
		pid, stop, err := child()
		if err != nil {
			return "", fmt.Errorf("start a child: %w", err)
		}
		defer stop()
		return do(pid)
	}
}

// script is an act in bash. It gets through if the script prints "through".
func script(text string, env ...string) (string, error) {
	c := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", text}, Env: append(os.Environ(), env...)}
	c.WaitDelay = 250 * time.Millisecond
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if strings.Contains(out.String(), "through") {
		return strings.TrimSpace(out.String()), nil
	}
	return "", errors.Join(err, fmt.Errorf("bash: %q", out.String()))
}

// lasts is the longest life of a process that tries to outlive a call. A process that
// survives outside must end by itself, even if it is not found.
const lasts = 30 * time.Second

// linger stays for lasts.
func linger(how []string) {
	for _, h := range how {
		switch h {
		case "deaf":
			signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
		case "stopped":
			_ = send(os.Getpid(), unix.SIGSTOP)
		}
	}
	pause(lasts)
}

// hop starts itself again and ends, a number of times, and then lingers.
func hop(marker string, left []string) error {
	n := 0
	if len(left) > 0 {
		n, _ = strconv.Atoi(left[0])
	}
	if n <= 0 {
		linger(nil)
		return nil
	}
	c := prober(partHop, marker, strconv.Itoa(n-1))
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return c.Start()
}
