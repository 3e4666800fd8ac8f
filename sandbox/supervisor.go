package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"belljar.dev/internal/closers"
	"belljar.dev/policies"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/egress"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/netlink"
	"belljar.dev/sandbox/seccomp"
	"belljar.dev/sandbox/workspace"
)

// Config is what a Supervisor needs to know.
type Config struct {
	// Workspace is the host directory that the boxes of Supervisor.Open see as /workspace.
	// It must exist; it is required by grants that give access to a workspace.
	// Supervisor.Workspace is for boxes of other directories.
	Workspace string
	// State is the directory for what outlives the program: the layers of overlay
	// workspaces and the images. It is made when it is first needed, and only the caller's
	// user may read it; grants that need it are refused without it.
	State string
	// Shared are directories that every box with a workspace sees read-only, whatever its
	// profile mounts. A directory that does not exist when a box opens is left out.
	Shared []policies.Mount
	// Checkpoints enables Box.Checkpoint. Each box with an overlay workspace then
	// looks at all earlier changes in it when it opens.
	Checkpoints bool
	// Boxes is the maximum number of boxes open at the same time; default 64.
	Boxes int
	// Spool is the directory for output beyond 64 KiB, in files without a name; default
	// os.TempDir().
	Spool string
	// SpoolSize bounds the bytes of all those files; default 4 GiB. An output
	// that finds no room keeps its first 64 KiB and counts the rest.
	SpoolSize int64
	// Cold starts every command in a new process, even if a warm shell could run
	// it.
	Cold bool
	// Secret returns the value of a secret that a profile's egress names; by
	// default no secret has a value. It is called from many goroutines.
	Secret func(ctx context.Context, name string) (string, error)
	// Resolver finds the addresses of the names that boxes connect to; default
	// the host's, without its search domains. Its answers are checked like those
	// of the host, so it cannot allow what the policy does not.
	Resolver egress.Resolver
	// Egress, if set, is called with the id of a box and each connection or
	// request that the box's door let through or refused. It is called from many
	// goroutines and must not block.
	Egress func(box string, r egress.Record)
	// Before is closed when the server that handed its clients over to this one has ended.
	// Until then, a box waits for an overlay workspace that is in use there. Nil means that
	// there is no such server.
	Before <-chan struct{}
	// Log gets messages for the operator; default no log.
	Log *slog.Logger
}

// Init runs a helper of a supervisor, or the process in which Examine tries what
// a box needs, if this program was started as one. Importing the package already
// runs the helpers, before other packages initialise; the call makes that visible
// in main and TestMain, and keeps the import. (The init of a box starts in
// another way: see package boxinit.)
func Init() { tryFirst() }

// Supervisor owns the boxes of a program. Its methods are safe for concurrent
// use.
type Supervisor struct {
	cfg       Config
	root      bool // whether boxes run as users of a private range, not as belljar's own user
	ground         // set by Prepare
	reading   reading
	prepare   func() error // runs once; every caller waits
	closeOnce func() error // runs once; every caller waits

	patience  patience       // how long it waits for inits
	restAfter time.Duration  // constant, except in tests
	roots     *x509.CertPool // authorities by which doors verify servers; nil for the host's
	redirect  func(netfilter int, to netip.AddrPort) error

	templates templates  // templates of roots
	home      *Workspace // workspace of Config, which may have no directory

	mu     sync.Mutex
	known  register
	idmaps map[idmapKey]*os.File
	store  *workspace.Store // store of overlay workspaces; nil until one is needed
}

// ground is what all boxes of a supervisor need.
type ground struct {
	disk    limit.Enforcement // how storage on disk is limited
	host    hostFacts
	groups  *cgroup.Tree
	filters filters
	spawner *spawner
	opened  closers.Stack
}

// filters are the seccomp programs of boxes.
type filters struct {
	plain   []byte
	nesting []byte // for boxes that nest namespaces
}

// reading is the spool and the buffers with which the outputs of all commands are kept and
// read.
type reading struct {
	spool   *spool
	buffers buffers
}

// New makes a Supervisor. Its error says what the host lacks. Work that takes long is left to
// Prepare. The caller must Close the Supervisor.
func New(cfg Config) (*Supervisor, error) {
	if cfg.Boxes == 0 {
		cfg.Boxes = 64
	}
	if cfg.Spool == "" {
		cfg.Spool = os.TempDir()
	}
	if cfg.SpoolSize == 0 {
		cfg.SpoolSize = 4 << 30
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := lacking(); err != nil {
		return nil, err
	}
	s := &Supervisor{
		cfg: cfg, root: os.Geteuid() == 0,
		patience: patience{startDeadline, killDeadline}, restAfter: restAfter, redirect: netlink.Redirect,
		reading: reading{spool: newSpool(cfg.Spool, cfg.SpoolSize)}, templates: templates{made: map[[sha256.Size]byte]*template{}},
		known: register{boxes: map[string]*Box{}, workspaces: map[string]*Workspace{}, allowances: map[string]*egress.Allowance{}, tenants: map[string]int{}}, idmaps: map[idmapKey]*os.File{},
	}
	s.home = newWorkspace(s, "")
	if cfg.Workspace != "" {
		home, err := s.Workspace(cfg.Workspace)
		if err != nil {
			return nil, err
		}
		s.home = home
	}
	s.closeOnce = sync.OnceValue(s.end)
	s.prepare = sync.OnceValue(func() error {
		s.mu.Lock()
		if s.known.closed {
			s.mu.Unlock()
			return fmt.Errorf("prepare boxes: %w", ErrClosed)
		}
		s.known.opening.Add(1) // Close waits for it
		s.mu.Unlock()
		defer s.known.opening.Done()
		return s.lay(s.cfg)
	})
	return s, nil
}

// lay makes the ground for the boxes of a supervisor. All that it opened before an error is
// closed with the rest.
func (g *ground) lay(cfg Config) (err error) {
	g.disk, g.host = diskHeld(cfg.Spool), readHost()
	if g.groups, err = cgroup.New(); err != nil {
		return err
	}
	g.opened.Add(g.groups.Close)
	options := seccomp.Options{Leaves: g.groups.Dir() != "", Watched: g.groups.Version(policies.LimitMemory) == 0}
	if g.filters.plain, err = seccomp.Filter(options); err != nil {
		return err
	}
	options.Nests = true
	if g.filters.nesting, err = seccomp.Filter(options); err != nil {
		return err
	}
	if g.spawner, err = newSpawner(); err != nil {
		return err
	}
	g.opened.Add(g.spawner.close)
	return nil
}

// patience is how long the supervisor waits for an init.
type patience struct {
	start time.Duration // time to do what it was asked for
	kill  time.Duration // time to report the end of a killed command
}

// The patience of a supervisor, except in tests.
const (
	startDeadline = 10 * time.Second // for an init to build its box, and for a command to start
	killDeadline  = 5 * time.Second  // for a killed process to end, and its end to be reported
)

// Limits returns how each limit is enforced in the boxes of Open. It is empty if Prepare
// fails.
func (s *Supervisor) Limits() limit.Enforcements {
	if s.Prepare() != nil {
		return nil
	}
	return s.home.held()
}

// Cgroup returns the cgroup v2 directory in which a caller may make cgroups for programs
// that run outside of boxes, or "" if the host has no cgroup v2 or Prepare fails. Processes
// in these cgroups are killed when the Supervisor ends, even if it is killed.
func (s *Supervisor) Cgroup() string {
	if s.Prepare() != nil {
		return ""
	}
	return s.groups.Dir()
}

// Home returns the workspace of Config, which has no directory if Config names none.
func (s *Supervisor) Home() *Workspace { return s.home }

// Open is Workspace.Open for the workspace that Config.Workspace names.
func (s *Supervisor) Open(ctx context.Context, id string, g policies.Grant) (*Box, error) {
	return s.home.Open(ctx, id, g)
}

// Regrant gives the boxes of Config.Workspace the egress of another policy, as
// Workspace.Regrant does.
func (s *Supervisor) Regrant(ctx context.Context, p *policies.Policy) { s.home.Regrant(ctx, p) }

const (
	// firstUID is the first of the user ids with which boxes of a root supervisor run. It
	// is far above those of accounts, of containers (subuid ranges start at 100000) and of
	// systemd's dynamic and container ranges (up to 0x6fffffff, systemd UIDS-GIDS.md).
	firstUID   = 0x70000000
	maxTenants = 1 << 16
)

// Usage is what the boxes of a tenant use of its totals.
type Usage struct {
	Boxes  int   // number of open boxes
	Memory int64 // bytes of memory
	Pids   int64 // number of processes and threads; zero if no cgroup counts them
	Disk   int64 // bytes that they may store on disk
	Egress int64 // bytes through its doors in the present hour
}

// Used returns what the boxes of a tenant use.
func (s *Supervisor) Used(tenant string) (u Usage) {
	if s.Prepare() != nil {
		return u // then no box is open
	}
	u.Pids = s.groups.Pids(tenant)
	s.mu.Lock()
	a := s.known.allowances[tenant]
	s.mu.Unlock()
	if a != nil {
		u.Egress = a.Used(time.Now())
	}
	for _, b := range s.Boxes() {
		if b.grant.Tenant() == tenant {
			if !ofUpstream(b.grant) {
				u.Boxes++
			}
			u.Disk += onDisk(b.grant)
			u.Memory += b.Used().Memory
		}
	}
	return u
}

// Close closes all boxes, waits until nothing of them is left, and makes Open
// fail. It may be called twice and concurrently; every caller waits.
func (s *Supervisor) Close() error { return s.closeOnce() }

// end is Close, called once.
func (s *Supervisor) end() error {
	s.mu.Lock()
	s.known.closed = true
	s.mu.Unlock()
	s.known.opening.Wait() // a box that is being made can be closed after this
	s.mu.Lock()
	boxes := make([]*Box, 0, len(s.known.boxes))
	for _, b := range s.known.boxes {
		boxes = append(boxes, b)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, b := range boxes {
		wg.Go(func() { _ = b.Close() })
	}
	wg.Wait()
	// First close the things that were opened when a box first needed them, and then the
	// things that these need.
	s.opened.Do(s.templates.close)
	if s.store != nil {
		s.opened.Add(closers.Logged(s.cfg.Log, "close the workspaces", s.store.Close))
	}
	for _, w := range s.known.workspaces {
		if w.guarding.protector != nil {
			s.opened.Add(closers.Logged(s.cfg.Log, "look at the workspace a last time", w.guarding.protector.Close))
		}
	}
	for _, f := range s.idmaps {
		s.opened.Add(f.Close)
	}
	return s.opened.Close()
}

// SignalsApart reports whether no command can signal another of its box. Landlock scopes
// signals since Linux 6.12. Before, a pid namespace for each command would keep them apart,
// for two to three times the price of a command.
func (s *Supervisor) SignalsApart() bool {
	return s.Prepare() == nil && signalsApart(s.nested(), s.host.landlock)
}
