package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	images "belljar.dev/sandbox/image"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/seccomp"
	"belljar.dev/sandbox/workspace"
)

// Bounds of one box that no profile changes.
const (
	maxRunning  = 256       // commands at once, background jobs included
	maxFinished = 64        // finished jobs and outputs that are remembered
	maxKept     = 256 << 20 // bytes on disk of the outputs of finished foreground commands
	maxShell    = 120 << 10 // bytes of a script: the kernel takes 128 KiB an argument (execve(2), MAX_ARG_STRLEN)
	maxStdin    = 1 << 20
	maxEnv      = 256
	ownFiles    = 2 // of Cmd.Files

	startDeadline = 10 * time.Second       // for an init to build its box, and for a command to start
	killDeadline  = 5 * time.Second        // for a killed process to end, and its end to be reported
	drainDeadline = 250 * time.Millisecond // for reading the rest of a dead command's output
)

// Box is one isolated place, with the mounts, limits and network of the grant
// that it was opened with. Commands in it may run one after the other or at the
// same time. They see each other's files, and also each other's processes if the
// host has a writable cgroup v2 tree. They see nothing of other boxes. All
// methods are safe for concurrent use.
type Box struct {
	sup   *Supervisor
	id    string
	name  string // of its cgroups
	grant policies.Grant
	open  bool // it is fully built; guarded by the supervisor's mu

	group     *cgroup.Group
	process   *os.Process // its init; process and conn are set with waking and mu held
	conn      *wire
	uid       int
	env       []string           // what every command gets, "NAME=value", sorted
	image     *images.Tree       // below its root, or nil
	shell     string             // runs scripts
	nested    bool               // each command gets a pid namespace of its own
	guard     *protect.Protector // of the workspace, or nil
	ward      protect.BoxState   // guard's view of the box
	area      *storage           // the place on disk of /tmp and home, or nil if they are in memory
	lease     *workspace.Lease   // of an overlay workspace, or nil
	calls     *workspace.Calls   // its checkpoints, or nil
	door      *door              // the way out
	null      *os.File           // os.DevNull to read from, for commands without stdin
	execs     *execView          // the programs that its commands start, or nil if exec is not watched
	sockets   socketRequests     // the sockets that the init was asked for
	held      limit.Enforcements
	deaf      func()             // ends the watch for out-of-memory kills
	answers   chan boxinit.Reply // OpIdle replies of the init
	strays    uint64             // messages that nobody waited for; guarded by the turn at conn
	kept      kept               // what outlives the init
	end       func()             // closes gone
	releasing sync.Once
	gone      chan struct{} // closed when the box has ended
	wg        sync.WaitGroup

	waking sync.RWMutex // see park.go; taken before mu

	mu        sync.Mutex
	closed    bool
	parked    bool          // the box has no init; set with waking held too
	ended     chan struct{} // closed when the init has ended; set with waking held
	used      time.Time     // when the box was last left alone
	resting   *time.Timer   // calls rest, while waits; nil before the first time
	waits     bool
	lastID    uint64             // of commands, on the wire
	lastJob   int64              // of background jobs
	lastLeaf  int                // of leaf cgroups
	spare     []*cgroup.Leaf     // empty ones
	oomSeen   int64              // number of out-of-memory kills already dealt with
	running   map[uint64]*Job    // by wire id
	alone     *Job               // has the box for itself, or nil
	asked     map[*Job]time.Time // start requests without an answer yet, and when each was sent
	late      *time.Timer        // looks at asked, while it is armed
	armed     bool
	warm      *warmShell           // waits for the next command, or nil
	warming   bool                 // one is being started
	jobs      []*Job               // background, oldest first
	outputs   []*Output            // of finished foreground commands, oldest first
	publish   []policies.PortRange // ports that may be published
	published []*Published
	cause     error // why the box is gone

	regranting sync.Mutex // one policy at a time; taken before mu
}

func newBox(s *Supervisor, id, name string, g policies.Grant) *Box {
	gone := make(chan struct{})
	return &Box{
		sup: s, id: id, name: name, grant: g, publish: g.Publish(), gone: gone, end: sync.OnceFunc(func() { close(gone) }),
		answers: make(chan boxinit.Reply, 1), kept: kept{overlay: -1, storage: -1}, running: map[uint64]*Job{}, asked: map[*Job]time.Time{},
	}
}

// start makes the box and waits until its init is ready.
func (b *Box) start(ctx context.Context, uid int) (err error) {
	b.uid = uid
	b.group, err = b.sup.groups.Open(b.name, b.grant, uid)
	if err != nil {
		return fmt.Errorf("open box %s: %w", b.id, err)
	}
	b.held = b.sup.heldFor(b.grant)
	b.null, err = os.Open(os.DevNull)
	if err == nil && b.grant.Storage() == policies.StorageDisk {
		l := b.grant.Limits()
		b.area, err = openStorage(b.sup.cfg.Spool, l.Tmp, l.TmpFiles, uid)
	}
	if err == nil {
		b.image, err = b.sup.useImage(b.grant)
	}
	if err == nil {
		b.deaf, err = b.group.WatchOOM(b.outOfMemory)
	}
	if err == nil {
		b.waking.Lock()
		err = b.live(ctx)
		b.waking.Unlock()
	}
	if err == nil && b.kept.able {
		b.kept.places, err = b.places()
	}
	if err != nil {
		b.shut()
		return fmt.Errorf("open box %s: %w", b.id, err)
	}
	if b.held[policies.LimitMemory] == limit.Watchdog {
		b.wg.Go(b.watchMemory)
	}
	return nil
}

// begin starts the init and waits until it has built the box. It prepares the
// script while the kernel makes the namespaces.
func (b *Box) begin(ctx context.Context) error {
	type start struct {
		process *os.Process
		conn    *wire
		err     error
	}
	started := make(chan start, 1)
	go func() {
		process, conn, err := b.sup.startInit(b.group, b.uid)
		started <- start{process, conn, err}
	}()
	script, files, err := b.design(ctx)
	s := <-started
	if s.err != nil {
		boxinit.CloseAll(files)
		return errors.Join(s.err, err)
	}
	b.mu.Lock()
	b.process, b.conn, b.strays = s.process, s.conn, 0
	if b.closed { // shut ran before it could see and kill this init
		err = errors.Join(err, b.goneErr())
	}
	b.mu.Unlock()
	if err == nil {
		err = sendScript(b.conn, script, files, b.sup.patience.start)
	}
	boxinit.CloseAll(files)
	if err == nil {
		err = b.ready(ctx, script)
	}
	if err != nil {
		b.endInit()
	}
	return err
}

// design returns the script of the box and the trees that go with it, which the
// caller must close.
func (b *Box) design(ctx context.Context) (*boxinit.Script, []int, error) {
	p, err := b.sup.plan(b.grant, b.uid, b.image)
	if err != nil {
		return nil, nil, err
	}
	first := b.door == nil
	if first {
		if b.door, err = b.sup.newDoor(b); err != nil {
			boxinit.CloseAll(p.passed())
			return nil, nil, err
		}
	}
	if p.authority = b.door.Authority(); len(p.authority) > 0 {
		p.files[authorityFile] = string(p.authority)
		store, err := javaStore(p.authority)
		if err != nil {
			boxinit.CloseAll(p.passed())
			return nil, nil, err
		}
		p.files[storeFile] = string(store)
	}
	if first {
		b.execs, err = b.sup.newExecView(b)
	}
	if err == nil && b.execs != nil {
		b.execs.renew(newExecFiles(p, b.sup.cfg.Workspace, b.sup.cfg.State))
		p.ours = b.execs.ours
		p.watcher, err = seccomp.ExecFilter(p.ours)
	}
	if err != nil {
		boxinit.CloseAll(p.passed())
		return nil, nil, err
	}
	if first {
		b.env, b.nested, b.shell = boxEnv(b.grant, b.image, len(p.authority) > 0), p.nested, shellOf(b.image)
	}
	if err := b.overlay(p); err != nil {
		boxinit.CloseAll(p.passed())
		return nil, nil, err
	}
	if b.guard, err = b.sup.protector(b.grant); err == nil && b.guard != nil {
		p.pins, err = b.guard.Pins()
	}
	if err == nil {
		b.sup.useTemplate(ctx, p)
		err = b.kept.again(p, b.area)
	}
	if err != nil {
		boxinit.CloseAll(p.passed())
		return nil, nil, err
	}
	return p.script(), p.passed(), nil
}

// ready waits until the init reports that the box is built.
func (b *Box) ready(ctx context.Context, script *boxinit.Script) error {
	deadline := time.Now().Add(b.sup.patience.start)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = b.conn.expect(deadline)
	first, files, err := b.receive()
	for _, step := range []struct {
		brings boxinit.Op
		take   func(files []int) error
	}{{boxinit.OpSocket, b.openDoor}, {boxinit.OpKept, b.keep}, {boxinit.OpListener, b.watchExecs}} {
		if err == nil && first.Op == step.brings {
			if err := step.take(files); err != nil {
				return err
			}
			first, files, err = b.receive()
		}
	}
	boxinit.CloseAll(files)
	switch {
	case err != nil:
		return fmt.Errorf("its init did not answer: %w", err)
	case first.Op == boxinit.OpFailed:
		if err := b.sup.explainOverlay(script.Name(first.Step), first.Errno); err != nil {
			return err
		}
		return &limit.Refusal{
			Message: "this host could not build the box; run \"belljar doctor\" to see what is missing",
			Err:     fmt.Errorf("%s: %w", script.Name(first.Step), first.Errno),
		}
	case first.Op != boxinit.OpReady || !b.door.opened || b.kept.want > 0 || b.execs != nil && !b.execs.begun:
		return errors.New("its init spoke before it was ready")
	}
	return nil
}

// ID is the name that Open was called with.
func (b *Box) ID() string { return b.id }

// Grant is the grant that the box was opened with.
func (b *Box) Grant() policies.Grant { return b.grant }

// Path is the list of directories in which the box's commands look for programs:
// the PATH that belljar, the image or the profile sets.
func (b *Box) Path() string {
	for _, e := range b.env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			return list
		}
	}
	return ""
}

// Limits says how each limit is held in this box.
func (b *Box) Limits() limit.Enforcements { return maps.Clone(b.held) }

// Broken returns a channel that is closed when the box ends: by Close, or because
// its init ended.
func (b *Box) Broken() <-chan struct{} { return b.gone }

// receive waits for one message of the init.
func (b *Box) receive() (boxinit.Reply, []int, error) {
	text, files, err := b.conn.receive()
	if err != nil {
		return boxinit.Reply{}, nil, err
	}
	return parseReply(text, files)
}

// parseReply checks only the form of a message. Files may come only with OpSocket,
// OpListener or OpKept, and the caller owns them.
func parseReply(text []byte, files []int) (r boxinit.Reply, _ []int, err error) {
	if err = io.EOF; len(text) > 0 {
		r, err = boxinit.ParseReply(text)
	}
	if err != nil || !bringsFiles(r.Op) {
		boxinit.CloseAll(files) // not ours to keep
		files = nil
	}
	return r, files, err
}

func bringsFiles(op boxinit.Op) bool {
	return op == boxinit.OpSocket || op == boxinit.OpListener || op == boxinit.OpKept
}

// hear passes a message of the init to the job or request that waits for it.
// The error says that the init sent a message that nobody asked for, or has
// ended. The caller has the turn at the connection.
func (b *Box) hear(text []byte, files []int) error {
	r, files, err := parseReply(text, files)
	if err != nil {
		return err
	}
	if b.sockets.hear(r, files) {
		return nil
	}
	if r.Op == boxinit.OpIdle {
		select {
		case b.answers <- r:
			return nil
		default:
		}
	}
	b.mu.Lock()
	j := b.running[r.ID]
	if w := b.warm; w != nil && w.job.wire == r.ID {
		j = w.job
	}
	asked := b.lastID
	b.mu.Unlock()
	if j != nil && r.Op != boxinit.OpReady && j.hear(r) {
		return nil
	}
	// A job may stop waiting for its command. The init reports the end of each
	// command once, so it sends at most one such message per command.
	if b.strays++; r.Op == boxinit.OpReady || bringsFiles(r.Op) || r.Op == boxinit.OpIdle || r.ID > asked || b.strays > asked {
		return errors.New("it speaks of what it was not asked for")
	}
	return nil
}

// attend receives the init's messages instead of listen until one is for the
// job. It returns at once if another goroutine has the turn. On an error it
// closes the connection, and listen then ends the box.
func (b *Box) attend(j *Job) {
	if len(j.replies) > 0 || !b.conn.takeTurn() {
		return
	}
	defer b.conn.endTurn()
	for len(j.replies) == 0 {
		text, files, err := b.conn.receive()
		if err == nil {
			err = b.hear(text, files)
		}
		if err != nil {
			b.conn.fail(err)
			return
		}
	}
}

// listen receives the init's messages until the init ends. Then it ends the jobs,
// unless the box was parked: a parked box has none.
func (b *Box) listen() {
	err := b.conn.listen(b.hear)
	// From here on the box has ended. An init ends by itself when the connection
	// ends; the kill is for one that hangs.
	b.conn.Close()
	_ = b.process.Kill()
	state, _ := b.process.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parked {
		return
	}
	if b.cause == nil {
		b.cause = fmt.Errorf("the box's init ended (%v): %w", state, err)
		b.sup.cfg.Log.Warn("box broke", "box", b.id, "err", b.cause)
	}
	b.closed = true
	b.end()
}

// Close kills all processes in the box, waits until they have ended, and removes
// what the host keeps for the box. Commands that run get a Result with status
// Killed. Close may be called twice and concurrently.
func (b *Box) Close() error {
	b.shut()
	b.sup.forget(b.id)
	return nil
}

// shut is Close for a box that may not be fully built.
func (b *Box) shut() {
	b.mu.Lock()
	b.closed = true
	if b.cause == nil {
		b.cause = ErrClosed
	}
	if b.process != nil {
		_ = b.process.Kill()
		b.conn.Close()
	}
	b.mu.Unlock()
	b.waking.Lock() // from here on nobody is parking or waking the box, or starting a command in it
	if b.parked || b.ended == nil {
		b.end()
	}
	b.waking.Unlock()
	b.coolDown()
	for _, p := range b.Published() {
		_ = p.Close()
	}
	b.wg.Wait() // listen, and every job's goroutines
	b.releasing.Do(b.release)
	b.mu.Lock()
	for _, t := range []*time.Timer{b.late, b.resting} {
		if t != nil {
			t.Stop()
		}
	}
	for _, o := range b.outputs {
		o.Close()
	}
	for _, j := range b.jobs {
		j.output.Close()
	}
	for _, l := range b.spare {
		l.Close()
	}
	b.outputs, b.spare = nil, nil
	b.mu.Unlock()
}

// release frees what the host keeps for a box whose init has ended.
func (b *Box) release() {
	if b.deaf != nil {
		b.deaf()
	}
	if b.door != nil {
		b.door.close()
	}
	if b.null != nil {
		b.null.Close()
	}
	b.execs.close()
	b.kept.close()
	b.group.Close()
	if b.area != nil {
		if err := b.area.close(); err != nil {
			b.sup.cfg.Log.Error("free storage", "box", b.id, "err", err)
		}
	}
	if b.image != nil {
		if err := b.image.Close(); err != nil {
			b.sup.cfg.Log.Error("let go of the image", "box", b.id, "err", err)
		}
	}
	if b.lease != nil {
		if err := b.lease.Close(); err != nil {
			b.sup.cfg.Log.Error("give back the workspace's layers", "box", b.id, "err", err)
		}
	}
}

// goneErr returns the reason why the box has ended, for callers of its methods.
// The caller holds b.mu.
func (b *Box) goneErr() error {
	if b.cause == nil || errors.Is(b.cause, ErrClosed) {
		return fmt.Errorf("box %s: %w", b.id, ErrClosed)
	}
	return fmt.Errorf("box %s: %w: %w", b.id, ErrClosed, b.cause)
}

// send sends one request to the init. It waits until the deadline for an init
// that does not read.
func (b *Box) send(r *boxinit.Request, files ...int) error {
	text, err := r.Encode()
	if errors.Is(err, unix.EMSGSIZE) {
		return &limit.Refusal{Message: "the command with its arguments and environment is too long; put long text into a file or stdin", Err: err}
	}
	if err != nil {
		return err
	}
	if err := b.conn.send(text, files, b.sup.patience.start); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.closed {
			return b.goneErr()
		}
		return fmt.Errorf("tell the init of box %s: %w", b.id, err)
	}
	return nil
}

// Cmd is one command to run in a box.
type Cmd struct {
	// Grant is the grant of the call that runs it; the box's must cover it.
	Grant policies.Grant
	// Shell is a bash script, or one for /bin/sh in a box whose image has no
	// bash; exclusive with Argv. At most 120 KiB.
	Shell string
	// Argv is a program, looked up in the PATH of the box, and its arguments.
	Argv []string
	// Dir is the working directory, absolute; default /workspace, or in a box
	// without one that of its image, or /tmp.
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
	// Background makes it a job that is listed and counted.
	Background bool

	// In, Out and Err, if set, are the command's streams while it runs. What goes
	// to Out and Err is not kept in the Result.
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

// validate says what is wrong with a command before anything is made for it.
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
		return &limit.Refusal{Message: fmt.Sprintf("the command is %d bytes long, at most %d are taken; write it to a file first and run that", len(c.Shell), maxShell)}
	case strings.ContainsRune(c.Shell, 0) || slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return &limit.Refusal{Message: "the command holds a NUL character, which no program can be given"}
	case len(c.Stdin) > maxStdin:
		return &limit.Refusal{Message: fmt.Sprintf("stdin is %d bytes long, at most %d are taken; write it to a file first", len(c.Stdin), maxStdin)}
	case max(len(c.Env), len(c.Environ)) > maxEnv:
		return &limit.Refusal{Message: fmt.Sprintf("%d environment variables, at most %d are taken", max(len(c.Env), len(c.Environ)), maxEnv)}
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
		r.Paths, r.Argv = []string{b.shell}, []string{path.Base(b.shell), "-c", c.Shell}
		switch {
		case !mayMove(c.Shell) || !b.follows():
		case b.shell == plainShell:
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
		r.Env = merge(b.env, extra)
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
	if b.nested {
		r.Flags |= boxinit.FlagNested
	}
	return r
}

// Environ returns the environment of the box's commands, which belljar, the image
// and the profile set.
func (b *Box) Environ() []string { return slices.Clone(b.env) }

// dir returns the directory in which the command starts.
func (c *Cmd) dir(b *Box) string {
	switch {
	case c.Dir != "":
		return c.Dir
	case b.grant.Workspace() != policies.AccessNone:
		return Workspace
	case b.image != nil && b.image.Runtime.Dir != "":
		return b.image.Runtime.Dir
	}
	return "/tmp"
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

// follows reports whether shells of the box may have the descriptors on which they
// report their last directory. The limit on open files is above that unless an
// operator chose one that hardly any program can work with.
func (b *Box) follows() bool {
	most := b.grant.Limits().OpenFiles
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

// Run starts a command and waits for its end. If ctx ends first, the command and
// all processes that it started are killed, and the Result says Killed. A program
// that fails is a Result; an error means that the command did not run.
func (b *Box) Run(ctx context.Context, c Cmd) (Result, error) {
	j, err := b.Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	r, err := j.Wait(ctx)
	if err == nil {
		return r, nil
	}
	return j.Kill(0), nil
}

// Start starts a command and returns once it runs. ctx bounds only the start. The
// error is a *limit.Refusal if the sandbox will not or cannot run the command; it may
// wrap limit.ErrTooMany or ErrClosed.
func (b *Box) Start(ctx context.Context, c Cmd) (*Job, error) {
	if err := c.validate(b); err != nil {
		return nil, err
	}
	if err := b.stay(ctx); err != nil {
		return nil, err
	}
	defer b.waking.RUnlock()
	j, err := b.startWarm(&c)
	if j == nil && err == nil {
		j, err = b.startCold(&c)
	}
	if err != nil {
		return nil, err
	}
	if c.Shell != "" && b.shell == shellPath {
		b.warmSoon(j)
	}
	if ctx.Err() != nil {
		j.Kill(0)
		return nil, fmt.Errorf("start command: %w", context.Cause(ctx))
	}
	return j, nil
}

// startCold starts a command in a new process.
func (b *Box) startCold(c *Cmd) (*Job, error) {
	b.mu.Lock()
	j, err := b.enter(c, nil)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := j.launch(c); err != nil {
		b.leave(j, false)
		b.wg.Done()
		return nil, err
	}
	return j, nil
}

// enter puts a job into the tables, within their bounds, and adds it to b.wg, so
// that closing the box waits for it. It makes a job if j is nil. The caller holds
// b.mu.
func (b *Box) enter(c *Cmd, j *Job) (*Job, error) {
	if b.closed {
		return nil, b.goneErr()
	}
	if len(b.running) >= maxRunning {
		return nil, &limit.Refusal{Message: fmt.Sprintf("%d commands are running in this session; wait for some to end", len(b.running)), Err: limit.ErrTooMany}
	}
	switch {
	case b.alone != nil:
		return nil, &limit.Refusal{Message: "another command has this box for itself; wait for its end", Err: limit.ErrTooMany}
	case c.Alone && len(b.running) > 0:
		return nil, &limit.Refusal{Message: fmt.Sprintf("%d commands run in this box, and this one needs it for itself; wait for their end", len(b.running)), Err: limit.ErrTooMany}
	}
	if c.Background {
		if err := b.roomForJob(c.Grant); err != nil {
			return nil, err
		}
	}
	if j == nil {
		b.lastID++
		j = newJob(b, b.lastID)
	}
	j.assign(c)
	if c.Background {
		b.list(j)
	}
	b.running[j.wire] = j
	if c.Alone {
		b.alone = j
	}
	b.wg.Add(1)
	return j, nil
}

// roomForJob checks the bound on background jobs. b.mu is held.
func (b *Box) roomForJob(g policies.Grant) error {
	n := 0
	for _, j := range b.jobs {
		if j.Status() == Running {
			n++
		}
	}
	if most := g.Limits().Jobs; n >= most {
		return &limit.Refusal{Message: fmt.Sprintf("%d background tasks are running and profile %q allows %d; kill one with KillBgTask or wait", n, g.Profile(), most), Err: limit.ErrTooMany}
	}
	return nil
}

// list gives a job its number and remembers it; the oldest finished ones are
// forgotten. b.mu is held.
func (b *Box) list(j *Job) {
	b.lastJob++
	j.id = b.lastJob
	b.jobs = append(b.jobs, j)
	for i := 0; len(b.jobs) > maxFinished && i < len(b.jobs); {
		if old := b.jobs[i]; old.Status() != Running {
			old.output.Close()
			b.jobs = slices.Delete(b.jobs, i, i+1)
		} else {
			i++
		}
	}
}

// leave takes a job out of the table of running ones. Its output is kept for
// readers if it ran.
func (b *Box) leave(j *Job, ran bool) {
	defer b.restLater()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, j.wire)
	if b.alone == j {
		b.alone = nil
	}
	switch {
	case !ran:
		b.jobs = slices.DeleteFunc(b.jobs, func(k *Job) bool { return k == j })
		j.output.Close()
	case j.id == 0:
		b.outputs = append(b.outputs, j.output)
		if j.output.onDisk() > 0 { // the others hold no more than before
			b.shrinkOutputs()
		}
		if len(b.outputs) > maxFinished {
			b.outputs[0].Close()
			b.outputs = slices.Delete(b.outputs, 0, 1)
		}
	}
}

// shrinkOutputs limits the spool files of finished commands to maxKept. It removes
// the files of the oldest outputs first, but never that of the command that just
// ended. The caller holds b.mu.
func (b *Box) shrinkOutputs() {
	var kept int64
	for _, o := range b.outputs {
		kept += o.onDisk()
	}
	for _, o := range b.outputs[:len(b.outputs)-1] {
		if kept > maxKept {
			kept -= o.onDisk()
			o.shrink()
		}
	}
}

// ranOut reports whether there was an out-of-memory kill in this box since the
// last call.
func (b *Box) ranOut() bool {
	n := b.group.OOMKills()
	b.mu.Lock()
	defer b.mu.Unlock()
	more := n > b.oomSeen
	b.oomSeen = n
	return more
}

// outOfMemory ends the command that ran out of memory. The kernel has killed one
// of its processes, and the others would continue without it. The kernel does not
// say which command that was. It is the only one; or the one whose main process
// was killed, which its end shows; or else the one with the most memory.
func (b *Box) outOfMemory() {
	if b.grant.OfBrowser() {
		return // which lost one page, and knows it
	}
	jobs := b.alive()
	if len(jobs) > 1 {
		select {
		case <-b.gone:
		case <-time.After(oomPause):
		}
		if !b.ranOut() {
			return
		}
		jobs = b.alive()
	}
	if j := largest(jobs); j != nil {
		j.stopWith(stopRequest{status: OOM})
	}
}

// largest returns the job with the most memory, or nil if there are no jobs.
func largest(jobs []*Job) (worst *Job) {
	if len(jobs) == 1 {
		return jobs[0]
	}
	most := int64(-1)
	for _, j := range jobs {
		if held := j.resident(); held > most {
			worst, most = j, held
		}
	}
	return worst
}

// oomPause is long enough for the init to report the end of a killed process.
const oomPause = 20 * time.Millisecond

// alive are the commands that run.
func (b *Box) alive() []*Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.running))
}

// Jobs returns the background jobs that the box remembers, oldest first: all
// running ones, and finished ones up to 64 in total.
func (b *Box) Jobs() []*Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.jobs)
}

// Job returns the background job with that id, if the box remembers it.
func (b *Box) Job(id int64) (*Job, bool) {
	for _, j := range b.Jobs() {
		if j.ID() == id {
			return j, true
		}
	}
	return nil, false
}

// Output returns the output with that id, of a background job or of one of the
// last 64 foreground commands. If these use more than 256 MiB on disk, the oldest
// keep only their first 64 KiB.
func (b *Box) Output(id string) (*Output, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		if j.output.id == id {
			return j.output, true
		}
	}
	for _, j := range b.running {
		if j.output.id == id {
			return j.output, true
		}
	}
	for _, o := range b.outputs {
		if o.id == id {
			return o, true
		}
	}
	return nil, false
}

// maxSpare bounds the empty leaves that a box keeps.
const maxSpare = 8

// takeLeaf returns the cgroup for the next command, or nil if this host has no
// usable cgroups.
func (b *Box) takeLeaf() (*cgroup.Leaf, error) {
	if !b.group.Leaves() {
		return nil, nil //nolint:nilnil // documented: no leaf is not an error
	}
	b.mu.Lock()
	if n := len(b.spare); n > 0 {
		l := b.spare[n-1]
		b.spare = b.spare[:n-1]
		b.mu.Unlock()
		return l, nil
	}
	b.lastLeaf++
	name := "c" + strconv.Itoa(b.lastLeaf)
	b.mu.Unlock()
	return b.group.NewLeaf(name)
}

// giveLeaf takes back an empty leaf, to use it again or remove it.
func (b *Box) giveLeaf(l *cgroup.Leaf) {
	b.mu.Lock()
	if l.Reusable() && !b.closed && len(b.spare) < maxSpare {
		b.spare = append(b.spare, l)
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	l.Remove()
}

// explainFailure says what the init could not do, in words.
func (b *Box) explainFailure(r boxinit.Reply, c *Cmd, req *boxinit.Request) error {
	switch errno := r.Errno; {
	case r.Step == boxinit.StepDirectory:
		return &limit.Refusal{Message: fmt.Sprintf("the working directory %s cannot be used in the box; give one that exists", req.Dir), Err: errno}
	case r.Step == boxinit.StepClone && errno == unix.EMFILE:
		return &limit.Refusal{Message: "the box runs as many commands as its open_files limit allows; wait for some to end", Err: errno}
	case errno == unix.EAGAIN:
		return &limit.Refusal{Message: "the box has as many processes as its pids limit allows; end some first", Err: errno}
	case r.Step == boxinit.StepDomain:
		return &limit.Refusal{Message: "the command could not be isolated from the other commands of its box, so it did not run", Err: errno}
	case r.Step == boxinit.StepExec && c.Shell != "" && b.image != nil:
		return &limit.Refusal{Message: fmt.Sprintf("image %q of the box has neither %s nor %s, so it runs programs only, and no shell commands; the operator can import one with a shell", b.image.Name, shellPath, plainShell), Err: errno}
	case r.Step == boxinit.StepExec && c.Shell != "":
		return &limit.Refusal{Message: "the box has no " + shellPath + "; install bash on this host, or let the profile show the system directories", Err: errno}
	case r.Step == boxinit.StepExec && errno == unix.ENOENT:
		return &limit.Refusal{Message: fmt.Sprintf("the box has no program %s", c.Argv[0]), Err: errno}
	case r.Step == boxinit.StepExec:
		return &limit.Refusal{Message: fmt.Sprintf("the box cannot execute %s, or the interpreter that it names", c.Argv[0]), Err: errno}
	}
	return &limit.Refusal{Message: "the sandbox could not start the command", Err: r.Errno}
}
