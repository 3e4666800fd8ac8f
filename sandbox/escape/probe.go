package escape

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// Category says which wall a probe tries.
type Category string

// The categories, in the order of a report.
const (
	Filesystem  Category = "filesystem"
	Proc        Category = "proc"
	Devices     Category = "devices"
	Credentials Category = "credentials"
	Namespaces  Category = "namespaces"
	Syscalls    Category = "syscalls"
	Network     Category = "network"
	Resources   Category = "resources"
	Lifetime    Category = "lifetime"
	Siblings    Category = "siblings"
	Tenants     Category = "tenants"
)

// Categories returns all categories.
func Categories() []Category {
	return []Category{Filesystem, Proc, Devices, Credentials, Namespaces, Syscalls, Network, Resources, Lifetime, Siblings, Tenants}
}

// Means returns what it means if a probe of the category gets through.
func (c Category) Means() string {
	switch c {
	case Filesystem:
		return "a command can read or change files of this machine that its profile does not show, or leave files behind that act for it"
	case Proc:
		return "a command can read or steer the machine, or processes outside its box, through /proc or /sys"
	case Devices:
		return "a command can reach the machine's devices or a terminal that is not its own"
	case Credentials:
		return "a command has, or can get, rights or secrets of the user who runs belljar"
	case Namespaces:
		return "a command can leave its namespaces or make new ones, where it would be root over more of the kernel"
	case Syscalls:
		return "a command can reach a part of the kernel that no ordinary program needs and that has been a way to take the machine over"
	case Network:
		return "a command can talk to something outside its box"
	case Resources:
		return "a command can use more of the machine than its profile allows"
	case Lifetime:
		return "something of a command can outlive it, or end what must outlive it"
	case Siblings:
		return "a command can read, steer or starve another command of its own box: forge what it says, or change what it runs"
	case Tenants:
		return "one tenant can see, signal, exhaust or time another"
	}
	return ""
}

// Probe is one act, tried outside and inside a box.
type Probe struct {
	ID       string
	Name     string // what is attempted
	Category Category
	Root     bool // whether only root gets through outside
	Works    bool // whether it must get through inside as well: an act that a box must not break

	try   act                // the act, done by the prober
	plant func(*Facts) error // a preparation in an earlier call, done by a prober
	look  act                // an act on the host afterwards, which decides

	where func(*ground) bool // whether the target exists on this host and in this profile; nil means always

	dies     bool // whether the prober may die by the refusal, or by plant
	own      bool // whether it spoils its box, so that it gets a box of its own
	renewed  bool // whether the box is closed and a new one opened between plant and try
	cut      bool // whether the prober stays after plant, and its call is cut off
	slow     bool // whether its box has the grant Config.Slow
	busy     bool // whether a command in the other tenant's box must be answered meanwhile
	sibling  bool // whether another command of its box is a victim meanwhile
	terminal bool // whether the prober gets a terminal outside
	kills    bool // whether it gets processes to kill outside
}

// act is an attempt. It returns what it reached, or an error that says what prevented it.
type act func(*Facts) (string, error)

// Held reports whether an outcome inside a box is as it must be.
func (p *Probe) Held(o Outcome) bool { return o.Err == nil && o.Through == p.Works }

// Outcome is the result of one attempt.
type Outcome struct {
	Through bool   // whether the attempt got through
	Detail  string // what it reached, or what prevented it
	Err     error  // why nothing was shown: the prober did not run, or gave no answer
}

// ground is what a host and a profile offer to attack.
type ground struct {
	root      bool
	workspace policies.Access
	image     bool // whether the box has an image's system directories
	git       bool // whether the workspace is a repository
	limits    limit.Enforcements
	addresses []string // addresses of the host, except loopback and link-local
	door      bool     // whether the profile has a way out
	signals   bool     // whether the host claims that no command can signal another command of its box
}

// held returns a condition: the host claims to enforce a limit in some way.
func held(l policies.Limit) func(*ground) bool {
	return func(g *ground) bool { return g.limits[l] != limit.NotEnforced }
}

// signalsApart reports whether the host claims to keep signals from other commands of the
// box.
func signalsApart(g *ground) bool { return g.signals }

// inGit reports whether the workspace is a repository in which a box can write.
func inGit(g *ground) bool { return g.git && g.workspace == policies.AccessWrite }

// withoutImage reports whether the box has no image, so that its system directories are
// those of the machine.
func withoutImage(g *ground) bool { return !g.image }

func canWrite(g *ground) bool { return g.workspace == policies.AccessWrite }

// All returns all probes, in the order of the categories.
func All() []Probe {
	var all []Probe
	for _, table := range []struct {
		of   Category
		rows []Probe
	}{
		{Filesystem, filesystem()},
		{Proc, proc()},
		{Devices, devices()},
		{Credentials, credentials()},
		{Namespaces, spaces()},
		{Syscalls, calls()},
		{Network, network()},
		{Resources, resources()},
		{Lifetime, lifetime()},
		{Siblings, siblings()},
		{Tenants, tenants()},
	} {
		for _, p := range table.rows {
			p.Category = table.of
			all = append(all, p)
		}
	}
	return all
}

// find returns the probe with that id.
func find(id string) (Probe, bool) {
	all := All()
	i := slices.IndexFunc(all, func(p Probe) bool { return p.ID == id })
	if i < 0 {
		return Probe{}, false
	}
	return all[i], true
}

// Check returns what is wrong with a table of probes: an id that occurs twice, a row
// without a name, or a row that attempts nothing.
func Check(all []Probe) error {
	var faults []error
	seen := map[string]bool{}
	for _, p := range all {
		switch {
		case p.ID == "" || strings.ContainsAny(p.ID, " /"):
			faults = append(faults, fmt.Errorf("probe %q (%s): the id is empty, or contains a space or a slash", p.ID, p.Name))
		case seen[p.ID]:
			faults = append(faults, fmt.Errorf("probe %s: the id is in use twice", p.ID))
		case p.Name == "":
			faults = append(faults, fmt.Errorf("probe %s: has no name", p.ID))
		case p.try == nil && p.look == nil:
			faults = append(faults, fmt.Errorf("probe %s: attempts nothing", p.ID))
		case p.Category.Means() == "":
			faults = append(faults, fmt.Errorf("probe %s: is of no category", p.ID))
		}
		seen[p.ID] = true
	}
	return errors.Join(faults...)
}

// run runs one prober. It returns what the prober wrote, and how it died if it died.
type run func(ctx context.Context, part string, f *Facts) (out string, death error, err error)

// Outside tries a probe as a plain process.
func (s *Suite) Outside(ctx context.Context, p Probe) Outcome {
	f := s.outside
	if p.slow {
		f.Limits = s.cfg.Slow.Limits()
	}
	if p.kills {
		lamb := exec.CommandContext(ctx, lookPath("sleep"), "60")
		lamb.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		if err := lamb.Start(); err != nil {
			return Outcome{Err: err}
		}
		defer func() {
			_ = lamb.Process.Kill()
			_ = lamb.Wait()
		}()
		f.Init, f.Everyone = lamb.Process.Pid, -lamb.Process.Pid
	}
	if p.sibling {
		v, stop, err := s.besideOutside(ctx)
		if err != nil {
			return Outcome{Err: err}
		}
		defer stop()
		f.Sibling = v
	}
	return attempt(ctx, &p, &f, func(ctx context.Context, part string, f *Facts) (string, error, error) {
		return s.runOutside(ctx, &p, part, f)
	}, nil)
}

// besideOutside starts a victim of the same user, in a session of its own, like a command.
// The caller must call stop.
func (s *Suite) besideOutside(ctx context.Context) (v Victim, stop func(), err error) {
	token := rand.Text()
	c := s.outsider(ctx, partBeside, token)
	c.Env = append(c.Env, "BELLJAR_VICTIM="+token)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	var errs capped
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err != nil {
		return v, nil, err
	}
	if err := c.Start(); err != nil {
		return v, nil, err
	}
	stop = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if v, err = meet(out, &errs); err != nil {
		stop()
	}
	return v, stop, err
}

// besideInside starts such a victim as a background job of a box. The caller must call
// stop.
func (s *Suite) besideInside(ctx context.Context, b *sandbox.Box) (v Victim, stop func(), err error) {
	token := rand.Text()
	outR, outW := io.Pipe()
	var errs capped
	job, err := b.Start(ctx, sandbox.Cmd{
		Grant: b.Grant(), Argv: []string{boxed, partBeside, token}, Env: map[string]string{"BELLJAR_VICTIM": token},
		Out: outW, Err: &errs, Background: true, Timeout: min(stepDeadline, b.Grant().Limits().Background),
	})
	if err != nil {
		return v, nil, err
	}
	ended := make(chan struct{})
	go func() { // ends at stop
		defer close(ended)
		<-job.Done()
		outW.Close()
	}()
	stop = func() {
		job.Kill(0)
		<-ended
		outR.Close()
	}
	if v, err = meet(outR, &errs); err != nil {
		stop()
	}
	return v, stop, err
}

func (s *Suite) runOutside(ctx context.Context, p *Probe, part string, f *Facts) (string, error, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	c := s.outsider(ctx, part, p.ID)
	c.Stdin = bytes.NewReader(text)
	var out, errs capped
	c.Stdout, c.Stderr = &out, &errs
	if p.terminal {
		master, name, err := newTerminal()
		if err != nil {
			return "", nil, err
		}
		defer unix.Close(master)
		slave, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return "", nil, err
		}
		defer slave.Close()
		c.ExtraFiles = append(c.ExtraFiles, slave)
		c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true, Ctty: 4}
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	if p.cut && part == partPlant {
		out.await(done)
		cancel()
	}
	err = c.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // another process keeps its output open
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), err, nil
}

// Inside tries a probe in the attacker's box, or in one of its own.
func (s *Suite) Inside(ctx context.Context, p Probe) Outcome {
	b, g, f := s.attacker, s.cfg.Attacker, s.inside
	if p.slow {
		g = s.cfg.Slow
		f.Limits = g.Limits()
	}
	if b != nil && closed(b.Broken()) {
		b.Close()
		b = nil
	}
	if b == nil || p.own {
		var err error
		if b, err = s.newBox(ctx, g); err != nil {
			return Outcome{Err: err}
		}
	}
	if p.own {
		defer func() { b.Close() }()
	} else {
		s.attacker = b
	}
	if p.sibling {
		v, stop, err := s.besideInside(ctx, b)
		if err != nil {
			return Outcome{Err: err}
		}
		defer stop()
		f.Sibling = v
	}
	var o Outcome
	try := func() {
		o = attempt(ctx, &p, &f, func(ctx context.Context, part string, f *Facts) (string, error, error) {
			return s.runInside(ctx, b, &p, part, f)
		}, func() error {
			if !p.renewed {
				return nil
			}
			b.Close()
			var err error
			b, err = s.newBox(ctx, g)
			return err
		})
	}
	if !p.busy {
		try()
		return o
	}
	if fault := s.answered(ctx, try); fault != nil && o.Err == nil {
		return Outcome{Through: true, Detail: "meanwhile the neighbour: " + fault.Error()}
	}
	return o
}

// answered runs f, and meanwhile a command in the neighbour's box again and again, at least
// once. It fails if one of these commands is not answered.
func (s *Suite) answered(ctx context.Context, f func()) error {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ended)
		f()
	})
	var fault error
	for first := true; (first || !closed(ended)) && fault == nil; first = false {
		var out capped
		r, err := s.neighbour.Run(ctx, sandbox.Cmd{
			Grant: s.cfg.Neighbour, Shell: "echo here", Out: &out, Err: io.Discard, Timeout: atMost(stepDeadline, s.cfg.Neighbour),
		})
		if err == nil && out.String() != "here\n" {
			err = fmt.Errorf("%v, %q", r.Status, out.String())
		}
		fault = err
	}
	wg.Wait()
	return fault
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *Suite) runInside(ctx context.Context, b *sandbox.Box, p *Probe, part string, f *Facts) (string, error, error) {
	told := *f
	told.Workspace = "" // a path on the host
	text, err := json.Marshal(&told)
	if err != nil {
		return "", nil, err
	}
	var out, errs capped
	job, err := b.Start(ctx, sandbox.Cmd{
		Grant: b.Grant(), Argv: []string{boxed, part, p.ID}, Stdin: text, Out: &out, Err: &errs, Timeout: atMost(stepDeadline, b.Grant()),
	})
	if err != nil {
		return "", nil, err
	}
	if p.cut && part == partPlant {
		out.await(done)
		job.TimeOut()
	}
	r, err := job.Wait(ctx)
	if err != nil {
		r, err = job.Kill(0), context.Cause(ctx)
	}
	var death error
	if err == nil && (r.Code != 0 || r.Status != sandbox.Exited) {
		death = fmt.Errorf("%v, code %d: %s", r.Status, r.Code, strings.TrimSpace(errs.String()))
	}
	return out.String(), death, err
}

// attempt takes a probe through its steps. between runs between plant and try.
func attempt(ctx context.Context, p *Probe, f *Facts, do run, between func() error) Outcome {
	var o Outcome
	if p.plant != nil {
		o = step(ctx, p, partPlant, f, do)
		if o.Err != nil || o.Through {
			return o
		}
		if between != nil {
			if err := between(); err != nil {
				return Outcome{Err: err}
			}
		}
	}
	if p.try != nil {
		o = step(ctx, p, partTry, f, do)
	}
	if p.look != nil && o.Err == nil {
		what, err := p.look(f)
		o = Outcome{Through: err == nil, Detail: what}
		if err != nil {
			o.Detail = err.Error()
		}
	}
	return o
}

// step runs one prober's part of a probe. If the box does not survive it, the probe got
// through in the worst way.
func step(ctx context.Context, p *Probe, part string, f *Facts, do run) Outcome {
	out, death, err := do(ctx, part, f)
	if errors.Is(err, sandbox.ErrClosed) {
		return Outcome{Through: true, Detail: fmt.Sprintf("the box did not survive: %v", err)}
	}
	if err != nil {
		return Outcome{Err: err}
	}
	r, err := lastReply(out, p.ID)
	switch {
	case err != nil:
		return Outcome{Err: errors.Join(err, death)}
	case r.Fault != "":
		return Outcome{Err: errors.New(r.Fault)}
	case r.Step == done:
		return Outcome{Through: r.Through, Detail: r.Detail}
	case p.dies:
		return Outcome{Detail: fmt.Sprintf("the prober died: %v", death)}
	}
	return Outcome{Err: fmt.Errorf("the prober began and gave no answer: %w", death)}
}

// lastReply returns the last reply of a prober. A prober without a reply did not run.
func lastReply(out, id string) (reply, error) {
	var last reply
	for line := range strings.Lines(out) {
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.ID != id {
			return last, fmt.Errorf("the prober said %q", line)
		}
		last = r
	}
	if last.Step == "" {
		return last, errors.New("the prober did not run")
	}
	return last, nil
}

// capped keeps the beginning of what is written to it.
type capped struct {
	mu   sync.Mutex
	text []byte
}

// Write accepts everything, and keeps as much as mostOutput allows.
func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p[:min(len(p), mostOutput-len(c.text))]...)
	return len(p), nil
}

// await waits until text was written, for as long as a prober may take.
func (c *capped) await(text string) {
	soon(stepDeadline, func() bool { return strings.Contains(c.String(), text) })
}

// String returns what was kept.
func (c *capped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}
