package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The program of a run with power cuts is the test of internal/durable. These
// variables configure it. Its function live explains the lines that it writes.
const (
	keepEnv = "BELLJAR_TEST_KEEP=" + keptDir
	saidEnv = "BELLJAR_TEST_KEEP_SAID=" + saidFile
)

// Limits of a run.
const (
	mostSteps = 12          // steps of each room before a cut
	mostWrite = 16          // writes after the last step, until the cut
	mostDelay = time.Second // longest wait for such a write
	recent    = 300         // latest steps of one room that are looked for: a room may delete older things
	keptNoise = 40          // lines of the guest that are not steps
	diskSize  = 64 << 20
	mostDeaf  = 5 // cuts until each room must have lost a step, if fsync does nothing
)

// power is a disk, and the steps that guests reported as stored on it.
type power struct {
	m       machine
	timeout time.Duration // time limit of one guest
	program string
	random  *rand.Rand
	disk    *disk
	deaf    bool

	cuts  int                 // number of cuts before the present guest
	rooms int                 // number of rooms that write
	said  map[string][]string // reported steps, by room, the oldest first
	steps map[string]int      // number of reported steps, by room
	lost  map[string][]string // reported steps that are lost, by room
}

// runCuts cuts the power of guests that write. Each guest looks for the steps that the
// guests before it reported. In a first run fsync does nothing in the guests, and steps
// must be lost: a test that cannot fail proves nothing.
func runCuts(ctx context.Context, m machine, o options, v variant) (int, error) {
	m.memory = min(m.memory, 768)
	if err := m.choose(ctx, o, v); err != nil {
		return 0, err
	}
	empty, err := format(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stdout, "      power cuts with the seed %d; use -seed to repeat them\n", o.seed)
	status := 0
	for _, deaf := range []bool{true, false} {
		p := &power{
			m: m, timeout: o.timeout, program: o.program, deaf: deaf, disk: newDisk(slices.Clone(empty)),
			random: rand.New(rand.NewPCG(o.seed, 0)),
			said:   make(map[string][]string), steps: make(map[string]int), lost: make(map[string][]string),
		}
		begun := time.Now()
		err := p.run(ctx, o.cuts)
		if !p.tell(v, time.Since(begun)) || err != nil {
			status = 1
		}
		if err != nil {
			return 0, err
		}
	}
	return status, nil
}

// run cuts the power cuts times. If fsync does nothing, it ends as soon as every room has
// lost a step.
func (p *power) run(ctx context.Context, cuts int) error {
	if p.deaf {
		cuts = mostDeaf
	}
	for i := range cuts + 1 { // the last guest only looks for steps
		p.cuts = i
		if err := p.live(ctx); err != nil {
			return err
		}
		if p.deaf && p.good() {
			break
		}
	}
	return nil
}

// good reports whether no step was lost or, if fsync does nothing, whether every room lost
// a step.
func (p *power) good() bool {
	if !p.deaf {
		return len(p.lost) == 0
	}
	return len(p.lost) > 0 && len(p.lost) == p.rooms
}

// tell writes the outcome, and reports whether it is good.
func (p *power) tell(v variant, took time.Duration) bool {
	word, kind := "ok", ""
	if p.deaf {
		kind = " without fsync"
	}
	if !p.good() {
		word = "FAIL"
		for room, steps := range p.lost {
			fmt.Fprintf(os.Stdout, "      %s lost %d: %q\n", room, len(steps), steps[:min(len(steps), 10)])
		}
	}
	var rooms []string
	all, lost := 0, 0
	for _, room := range slices.Sorted(maps.Keys(p.steps)) {
		rooms = append(rooms, fmt.Sprintf("%s %d of %d", room, len(p.lost[room]), p.steps[room]))
		all, lost = all+p.steps[room], lost+len(p.lost[room])
	}
	fmt.Fprintf(os.Stdout, "%-5s %-19s %d power cuts%s, lost %d of %d steps: %s; %d of %d sectors in the disk's cache lost, %.0f s by %s\n",
		word, v, p.cuts, kind, lost, all, strings.Join(rooms, ", "), p.disk.gone, p.disk.waited, took.Seconds(), p.m.accel)
	return p.good()
}

// format returns a disk with an empty file system.
func format(ctx context.Context) ([]byte, error) {
	program, err := exec.LookPath("mke2fs")
	if err != nil {
		return nil, &lackError{"no mke2fs; install the package e2fsprogs"}
	}
	tmp, err := os.MkdirTemp("", "vmtest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	path := filepath.Join(tmp, "disk")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, diskSize)); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, program, "-q", "-t", "ext4", path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mke2fs: %w: %s", err, out)
	}
	return os.ReadFile(path)
}

// live runs one guest. The guest looks for the steps that were reported before, and writes
// more until its power is cut.
func (p *power) live(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("the guest did not write enough within %s", p.timeout))
	defer cancel()
	tmp, err := os.MkdirTemp("", "vmtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	at := func(name string) string { return filepath.Join(tmp, name) }
	w := order{Kept: "/dev/vda", Said: p.lines(), Deaf: p.deaf, Dir: "/", Env: []string{keepEnv, saidEnv, "TMPDIR=/tmp", "HOME=/tmp"}}
	if err := writeInitrd(at("initrd"), p.m.kernel, w, p.program); err != nil {
		return fmt.Errorf("pack the guest's files: %w", err)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "unix", at("disk"))
	if err != nil {
		return err
	}
	p.disk.on()
	served := make(chan error, 1)
	go func() { served <- p.disk.serve(l) }()
	err = p.until(ctx, exec.CommandContext(ctx, p.m.qemu, p.m.line(at,
		"-blockdev", "driver=nbd,node-name=disk,server.type=unix,server.path="+at("disk"),
		"-device", "virtio-blk-pci,drive=disk,write-cache=on")...))
	l.Close()
	if broke := <-served; err == nil && broke != nil {
		err = fmt.Errorf("serve the disk: %w", broke)
	}
	return err
}

// until runs a guest up to a random moment, at which its power is cut.
func (p *power) until(ctx context.Context, cmd *exec.Cmd) error {
	steps, write := 1+p.random.IntN(mostSteps), 1+p.random.IntN(mostWrite)
	delay, after := time.Duration(p.random.Int64N(int64(mostDelay))), rand.New(rand.NewPCG(p.random.Uint64(), 0))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	enough, ended := make(chan struct{}), make(chan struct{})
	var words words
	go func() {
		defer close(ended)
		words.read(out, steps, enough)
	}()
	select {
	case <-enough:
		p.disk.cutAt(write, after)
		select {
		case <-time.After(delay):
		case <-ended:
		}
	case <-ended:
	case <-ctx.Done():
	}
	// Once the disk has no power, no write reaches it. So the disk cannot confirm a write
	// to the guest, however long the guest still runs.
	p.disk.cut(after)
	_ = cmd.Process.Kill()
	<-ended
	_ = cmd.Wait()
	p.heard(&words)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the guest wrote:\n%s", context.Cause(ctx), strings.Join(words.noise, "\n"))
	case p.deaf && p.cuts > 0 && !words.enough(steps):
		// The guest could not continue with what was left on the disk.
	case !words.enough(steps):
		return fmt.Errorf("the guest gave up:\n%s", strings.Join(words.noise, "\n"))
	}
	return nil
}

// heard records what a guest reported.
func (p *power) heard(w *words) {
	if w.checked {
		p.rooms = w.rooms
	}
	for _, line := range w.lost {
		room, step, _ := strings.Cut(line, " ")
		p.lost[room] = append(p.lost[room], step)
	}
	for _, line := range w.said {
		room, step, _ := strings.Cut(line, " ")
		steps := append(p.said[room], step)
		p.said[room] = steps[max(0, len(steps)-recent):]
		p.steps[room]++
	}
}

// lines returns the steps that the next guest looks for, one per line.
func (p *power) lines() string {
	var b strings.Builder
	for room, steps := range p.said {
		for _, step := range steps {
			fmt.Fprintln(&b, room, step)
		}
	}
	return b.String()
}

// words are the lines that a guest wrote.
type words struct {
	checked bool           // the guest has looked for earlier steps
	rooms   int            // number of rooms that write
	lost    []string       // earlier steps that are lost
	said    []string       // reported steps, in the form ROOM STEP
	steps   map[string]int // number of reported steps, by room
	noise   []string       // all other lines
}

// enough reports whether every room has reported at least this many steps.
func (w *words) enough(steps int) bool {
	if len(w.steps) < w.rooms {
		return false
	}
	for _, n := range w.steps {
		if n < steps {
			return false
		}
	}
	return w.checked
}

// read reads lines until the output ends, and closes enough when every room has reported at
// least the given number of steps. A line that was cut off has no line end, and does not
// count.
func (w *words) read(out io.Reader, steps int, enough chan<- struct{}) {
	w.steps = make(map[string]int)
	r := bufio.NewReader(out)
	for told := false; ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "checked":
			w.rooms, err = strconv.Atoi(rest)
			w.checked = err == nil
		case "lost":
			w.lost = append(w.lost, rest)
		case "said":
			room, _, _ := strings.Cut(rest, " ")
			w.said = append(w.said, rest)
			w.steps[room]++
		case "":
		default:
			w.noise = append(w.noise, strings.TrimSpace(line))
			w.noise = w.noise[max(0, len(w.noise)-keptNoise):]
		}
		if !told && w.enough(steps) {
			told = true
			close(enough)
		}
	}
}
