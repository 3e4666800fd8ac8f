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

// The program of such a run is that of internal/durable, and these variables
// configure it; live there says what its lines mean.
const (
	keepEnv = "BELLJAR_TEST_KEEP=" + keptDir
	saidEnv = "BELLJAR_TEST_KEEP_SAID=" + saidFile
)

// Bounds of a run.
const (
	mostSteps = 12          // steps of each room before a cut
	mostWrite = 16          // writes after the last step, until the cut comes
	mostDelay = time.Second // the longest wait for such a write
	recent    = 300         // steps of one room that are looked for: its oldest things make room
	keptNoise = 40          // lines of the guest that are not steps
	diskSize  = 64 << 20
	mostDeaf  = 5 // cuts in which something must be lost where fsync does nothing
)

// power is a disk, and what was said to be on it.
type power struct {
	m       machine
	timeout time.Duration // of one guest
	program string
	random  *rand.Rand
	disk    *disk
	deaf    bool

	cuts  int                 // before the guest that runs
	rooms int                 // that write
	said  map[string][]string // by room, the oldest first
	steps map[string]int      // how many steps were said, by room
	lost  map[string][]string // steps that were said and are lost, by room
}

// runCuts takes the power from guests that write, and has each look for what
// the ones before it said. At first fsync does nothing there, and something must
// get lost: what cannot fail proves nothing.
func runCuts(ctx context.Context, m machine, o options, v variant) (int, error) {
	m.memory = min(m.memory, 768)
	if err := m.choose(ctx, o, v); err != nil {
		return 0, err
	}
	empty, err := format(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stdout, "      power cuts with the seed %d; -seed makes them again\n", o.seed)
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

// run takes the power away cuts times. If fsync does nothing, it ends as soon
// as every room has lost something.
func (p *power) run(ctx context.Context, cuts int) error {
	if p.deaf {
		cuts = mostDeaf
	}
	for i := range cuts + 1 { // the last one only looks
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

// good reports whether nothing was lost, or something of every room where fsync
// does nothing.
func (p *power) good() bool {
	if !p.deaf {
		return len(p.lost) == 0
	}
	return len(p.lost) > 0 && len(p.lost) == p.rooms
}

// tell writes how it went, and reports whether that is good.
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
	fmt.Fprintf(os.Stdout, "%-5s %-19s %d power cuts%s, lost %d of %d steps: %s; %d of %d sectors in the disk's cache gone, %.0f s by %s\n",
		word, v, p.cuts, kind, lost, all, strings.Join(rooms, ", "), p.disk.gone, p.disk.waited, took.Seconds(), p.m.accel)
	return p.good()
}

// format is a disk with an empty file system.
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

// live is one guest: it looks for what was said before and writes on, until the
// power is taken.
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

// until runs a guest until a moment that chance has chosen.
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
	// Once the disk has no power nothing reaches it, so the guest cannot be told
	// that something is kept, however long it runs on.
	p.disk.cut(after)
	_ = cmd.Process.Kill()
	<-ended
	_ = cmd.Wait()
	p.heard(&words)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the guest wrote:\n%s", context.Cause(ctx), strings.Join(words.noise, "\n"))
	case p.deaf && p.cuts > 0 && !words.enough(steps):
		// It could not go on with what was left.
	case !words.enough(steps):
		return fmt.Errorf("the guest gave up:\n%s", strings.Join(words.noise, "\n"))
	}
	return nil
}

// heard keeps what a guest said.
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

// lines is what the next guest is to look for.
func (p *power) lines() string {
	var b strings.Builder
	for room, steps := range p.said {
		for _, step := range steps {
			fmt.Fprintln(&b, room, step)
		}
	}
	return b.String()
}

// words are what a guest wrote.
type words struct {
	checked bool           // it has looked for what was said before
	rooms   int            // that write
	lost    []string       // of what was said before
	said    []string       // ROOM STEP
	steps   map[string]int // by room
	noise   []string       // anything else
}

// enough reports whether every room has reported that many steps.
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

// read takes lines until there are no more, and closes enough when every room
// has reported that many steps. A line that was cut has no end, and does not count.
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
