package escape

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

const (
	stepDeadline = 30 * time.Second // longest time of one prober
	holdDeadline = 10 * time.Minute // longest time of a victim in a box
	mostOutput   = 64 << 10         // bytes kept of what a prober writes
	boxed        = "/tmp/" + proberName
)

// Config is what a Suite needs.
type Config struct {
	Supervisor *sandbox.Supervisor
	Workspace  string // directory that Supervisor was given
	// Attacker and Neighbour are grants of two tenants.
	Attacker, Neighbour policies.Grant
	// Slow is a grant of the attacker's tenant whose CPU limit is so low that a process
	// without the limit gets more, even on a busy machine; default Attacker.
	Slow policies.Grant
}

// Suite is the two worlds in which probes are tried, with their victims. Its
// methods are for one goroutine.
type Suite struct {
	cfg     Config
	dir     string   // contains everything that the suite makes on the host
	held    *os.File // directory that is open without close-on-exec
	outside Facts    // facts for probers outside
	inside  Facts    // facts for probers in the attacker's box
	ground  ground   // what this host and profile offer to attack

	victim       *exec.Cmd // victim on the host
	endVictim    io.Closer // standard input of victim: Close ends the victim
	endNeighbour io.Closer // pipes of the victim in the neighbour's box: Close ends that victim

	attacker, neighbour *sandbox.Box
	boxes               int // number of boxes that were opened
}

// Open makes the victims and opens the two boxes. The caller must Close the
// Suite, which also removes the victims.
func Open(ctx context.Context, cfg Config) (*Suite, error) {
	if cfg.Slow.IsZero() {
		cfg.Slow = cfg.Attacker
	}
	s := &Suite{cfg: cfg}
	for _, step := range []func(context.Context) error{s.prepare, s.makeVictim, s.openBoxes} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("open the probes: %w", err), s.Close())
		}
	}
	return s, nil
}

// Close closes the boxes, ends the victims, kills the processes that probes left running,
// and removes the files.
func (s *Suite) Close() error {
	var faults []error
	if s.endNeighbour != nil {
		s.endNeighbour.Close()
	}
	for _, b := range []*sandbox.Box{s.attacker, s.neighbour} {
		if b != nil {
			faults = append(faults, b.Close())
		}
	}
	if s.victim != nil {
		s.endVictim.Close()
		faults = append(faults, s.victim.Wait())
	}
	if s.outside.Marker != "" {
		_, _ = survivor("")(&s.outside) // finds and kills the processes with the marker
	}
	if s.held != nil {
		s.held.Close()
	}
	if s.dir != "" {
		faults = append(faults, os.RemoveAll(s.dir), os.Unsetenv(secretEnv))
	}
	return errors.Join(faults...)
}

// Probes returns the probes whose target exists on this host and in this profile.
func (s *Suite) Probes() []Probe {
	var list []Probe
	for _, p := range All() {
		if (!p.Root || s.ground.root) && (p.where == nil || p.where(&s.ground)) {
			list = append(list, p)
		}
	}
	return list
}

// NewWorkspace fills a directory with a repository and with files that editors
// and agents read by themselves. If root runs the suite, the directory belongs to
// another user, like most workspaces, so that a file of root in it is noticed.
func NewWorkspace(dir string) error {
	const stranger = 61234
	files := map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\tbare = false\n", ".git/hooks/pre-commit.sample": "#!/bin/sh\n",
		".git/objects/info/.keep": "", ".git/refs/heads/.keep": "",
		".vscode/tasks.json": "{}\n", ".claude/settings.json": "{}\n", ".mcp.json": "{}\n", "README": "a workspace\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := newFile(path, text); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, stranger, stranger)
	})
}

// prepare makes what probes outside need on the host: the directories, the secret variable
// and the open descriptor. It also collects the facts for probers in both worlds.
func (s *Suite) prepare(context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "belljar-escape-"); err != nil {
		return err
	}
	secret := rand.Text()
	if err := os.Setenv(secretEnv, secret); err != nil {
		return err
	}
	for _, name := range []string{"tmp", "ws", heldName} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			return err
		}
	}
	ws := filepath.Join(s.dir, "ws")
	if err := NewWorkspace(ws); err != nil {
		return err
	}
	fd, err := unix.Open(filepath.Join(s.dir, heldName), unix.O_RDONLY|unix.O_DIRECTORY, 0) // without close-on-exec
	if err != nil {
		return err
	}
	s.held = os.NewFile(uintptr(fd), heldName)

	s.outside = Facts{Marker: "belljar-stay-" + rand.Text(), Workspace: ws, Limits: s.cfg.Attacker.Limits(), Addresses: addresses()}
	if s.outside.Hostname, err = os.Hostname(); err != nil {
		return err
	}
	var root unix.Statx_t
	const uniqueID = 0x4000 // statx(2), STATX_MNT_ID_UNIQUE
	if unix.Statx(unix.AT_FDCWD, "/", 0, uniqueID, &root) == nil && root.Mask&uniqueID != 0 {
		s.outside.Mount = root.Mnt_id
	}
	s.inside = s.outside
	s.inside.Marker += "-boxed"
	s.inside.Init, s.inside.Everyone, s.inside.Workspace, s.inside.Proxy = 1, -1, s.cfg.Workspace, sandbox.Proxy
	for _, f := range []*Facts{&s.outside, &s.inside} {
		if err := f.look(); err != nil {
			return err
		}
	}
	_, err = os.Stat(filepath.Join(s.cfg.Workspace, ".git", "config"))
	s.ground = ground{
		root: os.Geteuid() == 0, workspace: s.cfg.Attacker.Workspace(), image: s.cfg.Attacker.Image() != "", git: err == nil,
		limits: s.cfg.Supervisor.Limits(), addresses: s.outside.Addresses,
		door: s.cfg.Attacker.Network() == policies.NetworkDoor, signals: s.cfg.Supervisor.SignalsApart(),
	}
	return nil
}

// look reads the state of the workspace before anything is tried.
func (f *Facts) look() error {
	if f.Workspace == "" {
		return nil
	}
	var info unix.Stat_t
	if err := unix.Stat(f.Workspace, &info); err != nil {
		return fmt.Errorf("stat %s: %w", f.Workspace, err)
	}
	f.Owner = int(info.Uid)
	entries, err := os.ReadDir(f.Workspace)
	for _, e := range entries {
		f.Listing = append(f.Listing, e.Name())
	}
	return err
}

// addresses returns the addresses of this machine, except loopback and link-local.
func addresses() []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var list []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// makeVictim starts the victim on the host.
func (s *Suite) makeVictim(ctx context.Context) error {
	token := rand.Text()
	// The victim runs a copy that its user may write, since probes try to write it.
	program := filepath.Join(s.dir, "tmp", "victim")
	if err := copyFile("/proc/self/exe", program); err != nil {
		return err
	}
	c := s.outsider(context.WithoutCancel(ctx), partHold, token)
	c.Path = program
	c.Env = append(c.Env, "BELLJAR_VICTIM="+token)
	var errs capped
	c.Stderr = &errs
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	s.victim, s.endVictim = c, in
	v, err := meet(out, &errs)
	if err != nil {
		return err
	}
	// Outside there is one victim: it also stands for the neighbour and for init.
	s.outside.Host, s.outside.Neighbour, s.outside.Init, s.outside.Proxy = v, v, v.Pid, loopback(v.Relay)
	s.inside.Host = v
	return nil
}

// copyFile copies a program.
func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700) //nolint:gosec // the file must be executable
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// meet reads what a victim reports about itself.
func meet(out io.Reader, errs *capped) (v Victim, err error) {
	line, err := bufio.NewReader(io.LimitReader(out, mostInput)).ReadBytes('\n')
	if err != nil {
		return v, fmt.Errorf("meet the victim: %w: %s", err, errs)
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return v, fmt.Errorf("meet the victim: %w", err)
	}
	return v, nil
}

// openBoxes opens the boxes of both tenants and puts a victim into one.
func (s *Suite) openBoxes(ctx context.Context) (err error) {
	if s.attacker, err = s.newBox(ctx, s.cfg.Attacker); err != nil {
		return err
	}
	if s.neighbour, err = s.newBox(ctx, s.cfg.Neighbour); err != nil {
		return err
	}
	token := rand.Text()
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	outR, outW := io.Pipe()
	var errs capped
	job, err := s.neighbour.Start(ctx, sandbox.Cmd{
		Grant: s.cfg.Neighbour, Argv: []string{boxed, partHold, token}, Env: map[string]string{"BELLJAR_VICTIM": token},
		In: inR, Out: outW, Err: &errs, Background: true, Timeout: min(holdDeadline, s.cfg.Neighbour.Limits().Background),
	})
	if err != nil {
		return errors.Join(err, inR.Close(), inW.Close())
	}
	s.endNeighbour = closers{inW, inR, outR}
	go func() {
		<-job.Done() // ends when the box closes, at the latest
		outW.Close()
	}()
	v, err := meet(outR, &errs)
	if err != nil {
		return err
	}
	// The victim knows only its pid in its own box. A probe in another box tries the pid on
	// the host.
	pid, ok := findProcess(token)
	if !ok {
		return errors.New("the neighbour's victim is not among the host's processes")
	}
	v.Pid = pid
	s.inside.Neighbour = v
	return nil
}

type closers []io.Closer

// Close closes all of them.
func (c closers) Close() error {
	var faults []error
	for _, one := range c {
		faults = append(faults, one.Close())
	}
	return errors.Join(faults...)
}

// newBox opens a box and puts the prober into it.
func (s *Suite) newBox(ctx context.Context, g policies.Grant) (*sandbox.Box, error) {
	s.boxes++
	b, err := s.cfg.Supervisor.Open(ctx, fmt.Sprintf("probe-%d", s.boxes), g)
	if err != nil {
		return nil, err
	}
	if err := Install(ctx, b); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Install puts the prober into a box.
func Install(ctx context.Context, b *sandbox.Box) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	r, err := b.Run(ctx, sandbox.Cmd{
		Grant: b.Grant(), Shell: "cat >" + boxed + " && chmod 700 " + boxed, Dir: "/tmp",
		In: self, Out: io.Discard, Err: io.Discard, Timeout: atMost(stepDeadline, b.Grant()),
	})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("install the prober in /tmp of the box: %v, code %d", r.Status, r.Code)
	}
	return err
}

// atMost returns d, but at most the wall limit of a grant.
func atMost(d time.Duration, g policies.Grant) time.Duration { return min(d, g.Limits().Wall) }

// outsider returns the command of a prober outside.
func (s *Suite) outsider(ctx context.Context, part, arg string) *exec.Cmd {
	c := exec.CommandContext(ctx, "/proc/self/exe")
	c.Args = []string{proberName, part, arg}
	c.Dir = s.outside.Workspace
	c.Env = append(os.Environ(), "TMPDIR="+filepath.Join(s.dir, "tmp"))
	c.ExtraFiles = []*os.File{s.held}
	c.WaitDelay = 250 * time.Millisecond
	return c
}
