package protect

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a Protector.
//
// A number that a box can increase never ends a look: a new path beyond such a bound is
// removed as long as it is new, and the paths that existed when no command ran are looked
// at first and stay protected.
const (
	maxPins      = 256    // pinned paths; more are only watched
	maxExtra     = 64     // paths that configuration adds, or the policy of one profile
	maxAlso      = 512    // paths that the policies of all profiles add
	maxMarked    = 65_536 // directories of the workspace that are remembered as they were; the rest is looked at each time
	maxHomes     = 1024   // directories with a repository that a person can have
	maxGitDirs   = 512    // git directories, beyond which a command can make no more
	maxPerKind   = 32     // submodules or worktrees of a repository; more are pinned as a whole
	maxPinnedGit = 40     // directories with a repository that are pinned; more are watched
	maxGitDepth  = 6      // depth of submodules in submodules
	maxWay       = 32     // parts of a path that is pinned in its place
	maxTold      = 64     // changes that one look reports, and as many errors and notes
)

// errUnprotected is wrapped by what Begin and End return if the workspace may contain what
// a box put there, or if a pin is lost: the box must be closed.
var errUnprotected = errors.New("the workspace is not protected")

// Reverted is one change to a protected path of the workspace that was reverted. Its words
// are for the agent.
type Reverted struct {
	Path string // path relative to the workspace
	What string // what was done and why; Path and What together are a sentence
}

// String returns the sentence.
func (r Reverted) String() string { return "`" + r.Path + "` " + r.What }

// Unreadable is the error for a workspace that its owner has closed to belljar.
type Unreadable struct{ Err error }

// Error says what happened and what to do.
func (e *Unreadable) Error() string {
	return "the workspace cannot be read any more: " + e.Err.Error() + "; its owner must allow the user that runs belljar to read it"
}

// Unwrap returns the cause.
func (e *Unreadable) Unwrap() error { return e.Err }

// Pin is a path that an init binds over itself.
type Pin struct {
	Path     string // path relative to the workspace, with no link in any part of it
	Dir      bool
	Writable bool // whether it is only kept in its place, and can be written as before
}

// Protector guards one workspace, for all boxes that work in it. Its methods
// are safe for concurrent use.
type Protector struct {
	walk     walk
	schedule schedule
	report   func(Reverted) // called for each reverted change; nil for no report

	mu        sync.Mutex
	knowledge         // the workspace, and what is known about it
	commands          // the commands that work in it
	servers   servers // the servers that run commands in it
	seen      []mark  // what the last look looked at; nil if the next look cannot rely on it
	// start of the first command after which no walk has been everywhere; zero if no such
	// command exists
	unseen  time.Time
	partial bool // whether the first walk has not been everywhere yet
	settled bool // whether prepare has ended
}

// knowledge is what is known about a workspace. The Protector's mu guards it.
type knowledge struct {
	workdir
	guards  map[string]*guard
	extra   map[string]string // by further path: why it is protected
	also    map[string]string // the part of extra that the policies name
	notes   []string
	plain   map[string]mark // directories of the workspace without a repository, by name
	homes   []*home         // directories with a repository, those known longest first
	repos   map[string]bool // git directories that were there when no command ran
	made    map[ident]bool  // directories with a repository that a command has made
	vacant  map[string]bool // paths at which a command removed a repository that it did not make
	skipped map[string]bool // directories with a repository that are not looked at, because a person has more than maxHomes
	deep    map[string]bool // by further directory that the walk has found: whether a look has judged it since
	setIDs  []string        // files whose mode gives rights away
	record  string          // file that keeps homes and setIDs for the next server; empty for no file
	unsaved bool            // whether homes or setIDs differ from the record
}

// commands is what a Protector knows of the commands that work in the workspace. Its mu
// guards them.
type commands struct {
	running  int
	begun    int        // number of commands that began; also increased if a walk in progress becomes invalid
	watches  []*Watch   // watches of the commands that run
	reverted int        // number of changes that were reverted since the start
	idle     int        // how many of them were reverted since the last command ended
	news     []Reverted // the last of these reverted changes, while commands run
	failed   int        // number of looks that failed in a row
	failing  bool       // whether the last look, after which no command ran, has failed
	whole    time.Time  // when the next whole look is due; until then looks are short
	ended    time.Time  // when the last command ended
}

// guard is one protected path, with its state when no command ran.
type guard struct {
	rule
	held     bool  // whether it is pinned in every box, so that no box can change it, and only its identity is compared
	watched  bool  // whether it is pinned in no box, because there is too much
	id       ident // identity of what is pinned
	was      *entry
	accepted map[string]bool // for a configuration: settings that it had before
	tail     string          // for a configuration: its end, which git cannot read
	used     bool            // whether this look used it; if not, it is dropped after the look
	unread   bool            // whether an index, or the list of a rebase, could not be read when no command ran
	changed  unix.Timespec   // for a file that gives rights away: its ctime when no command ran
}

// rule is what may be at a path in addition to the earlier state.
type rule struct {
	why     string
	dir     bool                   // a directory is allowed, whatever it contains
	through bool                   // it is on the way to a protected path: anything except a link is allowed
	samples bool                   // a directory of files named *.sample is allowed
	text    func(text []byte) bool // a file is allowed if text returns true for its text; may be nil
	loose   bool                   // it is never pinned: it may change, within bounds
	setID   bool                   // it is a file that gives rights away, whatever other names it has
}

// mark is something that a look looked at, with its state then.
type mark struct {
	path string
	id   ident
	time unix.Timespec // ctime of the file
	text bool          // whether its text is compared, and not its time
	sum  uint64        // sum of its text
}

// Config is what a Protector needs to know.
type Config struct {
	Workspace string         // directory on the host
	State     string         // directory for what the next server must know; empty for no directory
	Also      []string       // further paths of the workspace, which a profile names
	Report    func(Reverted) // called for each reverted change; nil for no report
}

// Open protects a workspace, and the paths Also in it. The error is an [Unreadable] if the
// directory cannot be listed. The caller must Close the Protector.
func Open(cfg Config) (*Protector, error) {
	dir, err := os.OpenFile(cfg.Workspace, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("protect the workspace: %w", err)
	}
	defer dir.Close()
	return open(dir, cfg, recordFile(cfg.State, cfg.Workspace), true)
}

// open is Open for an open directory, which the caller still owns. Its knowledge is kept in
// the file record, unless record is empty. Without deep, the Protector knows no repository
// more than one directory down.
func open(workspace *os.File, cfg Config, record string, deep bool) (*Protector, error) {
	fd, err := unix.Openat(int(workspace.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Unreadable{err}
	}
	p := &Protector{report: cfg.Report, knowledge: knowledge{
		workdir: workdir{root: os.NewFile(uintptr(fd), "workspace"), seed: maphash.MakeSeed()},
		guards:  map[string]*guard{}, also: map[string]string{}, made: map[ident]bool{}, vacant: map[string]bool{}, deep: map[string]bool{}, record: record,
	}}
	p.servers = servers{root: p.root, record: record}
	p.schedule.mu, p.schedule.look = &p.mu, p.lookAndWalk
	err = p.prepare(cfg.Also, deep)
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("protect the workspace: %w", err)
	}
	return p, nil
}

func (p *Protector) prepare(also []string, deep bool) (err error) {
	if p.where, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", p.root.Fd())); err != nil {
		return err
	}
	if err := p.name(also); err != nil {
		return err
	}
	p.trust = trustIn(int(p.root.Fd()))
	var st unix.Stat_t
	if err := unix.Fstat(int(p.root.Fd()), &st); err != nil {
		return err
	}
	p.dev = st.Dev
	if err := p.load(); err != nil {
		return err
	}
	whole := true
	others, err := p.servers.others()
	if err != nil {
		return err
	}
	p.unseen = others.first
	if deep {
		if whole, err = p.walkFor(firstWalk); err != nil {
			return err
		}
	}
	alone := p.alone() && !others.alive
	defer p.release()
	if err := p.take(alone, true); err != nil {
		return err
	}
	p.settled, p.ended = true, time.Now()
	if !whole {
		p.partial = true
		p.schedule.start(lookEvery)
		return nil
	}
	p.unseen = time.Time{}
	return p.servers.end()
}

// name adds the paths that a policy names.
func (k *knowledge) name(also []string) error {
	if len(also) > maxExtra {
		return fmt.Errorf("the profile names %d paths, at most %d are allowed; name a directory that holds several of them", len(also), maxExtra)
	}
	named := maps.Clone(k.also)
	for _, a := range also {
		clean := path.Clean(a)
		if clean == "." || !inside(clean) || strings.ContainsRune(clean, 0) {
			return fmt.Errorf("the path %q is not a path in the workspace", a)
		}
		named[clean] = "the policy protects it"
	}
	if len(named) > maxAlso {
		return fmt.Errorf("the profiles of this workspace name %d paths together, at most %d are allowed", len(named), maxAlso)
	}
	k.also = named
	return nil
}

// Add protects the paths of a further profile. Their present state is adopted, even while
// commands run, because boxes could change these paths until now.
func (p *Protector) Add(also []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.also
	if err := p.name(also); err != nil {
		return fmt.Errorf("protect the workspace: %w", err)
	}
	if maps.Equal(old, p.also) {
		return nil
	}
	l := p.look(true)
	l.keep, l.late, l.fresh = true, ".", map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.also)) {
		if old[name] != "" {
			continue
		}
		if g := p.guards[name]; g != nil && (g.dir || g.through || g.loose) {
			delete(p.guards, name) // it is protected as a whole from now on
		}
		l.sealPath(name, p.also[name])
	}
	if len(l.errs) > 0 {
		p.also = old
		return fmt.Errorf("protect the workspace: %w", errors.Join(l.errs...))
	}
	p.seen = nil
	maps.Copy(p.extra, l.extra)
	return nil
}

// Close waits for a look in progress, and for a walk after the last command, and releases
// the workspace. No method may be called after it.
func (p *Protector) Close() error {
	p.schedule.close()
	var err error
	if p.settled && p.running == 0 && !p.unseen.IsZero() {
		// If the walk does not come to its end, the next server continues it.
		_, err = p.walkFor(firstWalk)
	}
	p.servers.unlock()
	for _, h := range p.homes {
		h.dir.Close()
	}
	return errors.Join(err, p.root.Close())
}

// Remarks returns what the operator should know: configuration that is not followed, or
// programs in the workspace that it names.
func (p *Protector) Remarks() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

// Pins returns the paths that the init of a new box binds over themselves, in the order of
// mounting: a directory before what is in it.
func (p *Protector) Pins() ([]Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		defer p.release()
		if err := p.adopt(); err != nil {
			return nil, err
		}
	}
	return p.list()
}

// list is Pins for what is known now. p.mu is held. Paths that are pinned in every box come
// before those that older boxes do not pin.
func (k *knowledge) list() ([]Pin, error) {
	var all []Pin
	closed := "" // the last directory that is pinned as a whole
	for _, name := range slices.SortedFunc(maps.Keys(k.guards), byParts) {
		if closed != "" && strings.HasPrefix(name, closed+"/") {
			continue
		}
		g := k.guards[name]
		if g.loose || g.watched {
			continue
		}
		fd, err := openBeneath(int(k.root.Fd()), name, unix.O_PATH, 0)
		if err != nil {
			continue // absent, or behind a link: it is only watched
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil || !isDir(&st) && !isRegular(&st) || g.through && !isDir(&st) {
			continue
		}
		one := Pin{Path: name, Dir: isDir(&st), Writable: isDir(&st) && (g.dir || g.through)}
		if one.Dir && !one.Writable {
			closed = name
		}
		all = append(all, one)
	}
	chosen := map[string]bool{}
	choose := func(one Pin) {
		for at := one.Path; at != "."; at = path.Dir(at) {
			if g := k.guards[at]; g != nil && !g.loose && !g.watched {
				chosen[at] = true // with the directories around it: moving one of them would move the pin too
			}
		}
	}
	for _, one := range all {
		if k.guards[one.Path].held {
			choose(one)
		}
	}
	for _, one := range all {
		if len(chosen) >= maxPins-maxWay {
			break
		}
		if !k.guards[one.Path].through {
			choose(one)
		}
	}
	all = slices.DeleteFunc(all, func(one Pin) bool { return !chosen[one.Path] })
	if len(all) > maxPins+maxWay {
		return nil, fmt.Errorf("%w: more than %d paths of the workspace are to be pinned, %s among them", errUnprotected, maxPins, plain(all[maxPins].Path))
	}
	return all, nil
}

// byParts orders paths so that what is in a directory directly follows it.
func byParts(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}
