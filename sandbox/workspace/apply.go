package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Options state which changes Apply takes over, and how it treats the others.
type Options struct {
	// Paths are the paths to apply, written as for Unified; empty means all.
	Paths []string
	// SkipConflicts skips the files that changed in the base as well, and applies
	// the rest. Without it, one conflict makes Apply change nothing.
	SkipConflicts bool
	// Guard decides which changes of a base are not applied: the function that it returns
	// gives the reason, or "" if the change may be applied. Guard is required unless
	// Protected is set.
	Guard Guard
	// Protected applies the changes that Guard would keep out.
	Protected bool
	// DryRun changes nothing, and reports what would be done.
	DryRun bool
	// As is the digest of a diff of the same paths. Apply then applies exactly what the
	// diff showed, or nothing and returns ErrChanged if the set has changed since.
	As string
	// Live applies the set as it is now, even if a box works in it and may have changed it
	// since a person looked at it. Without Live and without As, Apply refuses a set that a
	// box works in.
	Live bool
}

// Guard returns a function that gives the reason why a change touches a protected path of
// the base, or "". It is called before the base is changed.
type Guard func(base string, p Protect, changes []Change) (func(c *Change) string, error)

// Report is what Apply did.
type Report struct {
	Set       string   `json:"set"`
	Base      string   `json:"base"`
	Applied   []Change `json:"applied"`
	Skipped   []Skip   `json:"skipped,omitempty"`
	Conflicts []Skip   `json:"conflicts,omitempty"`
	// Emptied reports whether all changes were applied. The set then begins anew on the
	// present base, without layers and checkpoints.
	Emptied bool `json:"emptied"`
	// Live reports whether a box works in the set. The set then keeps its layers.
	Live bool `json:"live,omitempty"`
	// Resumed reports whether an earlier Apply had been interrupted.
	Resumed bool `json:"resumed,omitempty"`
}

// Skip is a path that was not applied.
type Skip struct {
	Path    string `json:"path"`
	PathB64 string `json:"path_b64,omitempty"`
	Reason  string `json:"reason"`
}

// Apply writes the changes of the set to its base. It replaces each file as a whole, by a
// rename, so that a crash leaves either the old or the new file. If Apply was interrupted,
// the next Apply does the rest. Apply follows no link of the base. Files get the owner of
// the base, and lose set-user-ID, which would let them run as that owner.
//
// A path that has also changed in the base since the set was made is a conflict. Apply then
// changes nothing and returns ErrConflict with a Report, unless SkipConflicts is set.
func (s *Store) Apply(ctx context.Context, id string, opts Options) (*Report, error) {
	r, err := s.apply(ctx, id, opts)
	if err != nil {
		return r, fmt.Errorf("apply set %s: %w", id, err)
	}
	return r, nil
}

func (s *Store) apply(ctx context.Context, id string, opts Options) (*Report, error) {
	if opts.Guard == nil && !opts.Protected {
		return nil, errors.New("nothing says which paths are protected")
	}
	if !opts.DryRun {
		// Two sets that are harmless alone can be harmful together, so no other set
		// may change the base while this one is judged.
		l, err := waitLock(s.root, applyName, unix.LOCK_EX)
		if err != nil {
			return nil, fmt.Errorf("another apply: %w", err)
		}
		defer l.free()
	}
	o, err := s.look(id, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if o.diff.Live, err = o.quiet(); err != nil {
		return nil, err
	}
	if o.diff.Live && opts.As == "" && !opts.Live && !opts.DryRun {
		return nil, fmt.Errorf("%w, so it may have changed since you looked. Nothing was applied. Give --as with the digest that `belljar workspace diff %s` ends with, or --live to take the set as it is now", ErrLive, id)
	}
	r := &Report{Set: id, Base: o.meta.Base, Live: o.diff.Live, Applied: []Change{}}
	if !opts.DryRun {
		if r.Resumed, err = o.tidy(); err != nil {
			return nil, err
		}
	}
	if err := o.compare(ctx); err != nil {
		return nil, err
	}
	chosen, err := choose(o.diff.Changes, opts.Paths)
	if err != nil {
		return nil, err
	}
	var shown *digest
	if opts.As != "" {
		if shown, err = o.digestOf(ctx, chosen); err != nil {
			return nil, err
		}
		if shown.String() != opts.As {
			return r, fmt.Errorf("%w: %s. Nothing was applied. Look again with `belljar workspace diff` and the same paths, then give --as and the digest that it prints", ErrChanged, shown.differs(opts.As))
		}
	}
	p := &planned{changes: chosen, why: make([]string, len(chosen)), conflict: make([]bool, len(chosen))}
	if err := p.judge(o, opts); err != nil {
		return nil, err
	}
	if p.report(r); len(r.Conflicts) > 0 && !opts.SkipConflicts {
		r.Applied = []Change{}
		return r, fmt.Errorf("%w: %d of %d paths; nothing was applied. Look at them, then apply with --skip-conflicts or name the paths to apply", ErrConflict, len(r.Conflicts), len(chosen))
	}
	if opts.DryRun {
		return r, nil
	}
	a := &applying{open: o, planned: p, report: r, linked: map[uint64]bool{}, shown: shown}
	if err := a.run(ctx); err != nil {
		return r, err
	}
	return r, a.finish(len(chosen) == len(o.diff.Changes))
}

// planned are the changes to apply, and the reasons to skip some of them.
type planned struct {
	changes  []Change
	why      []string
	conflict []bool
}

func (p *planned) skip(i int, why string) {
	if p.why[i] == "" {
		p.why[i] = why
	}
}

// judge finds out which changes cannot be applied.
func (p *planned) judge(o *open, opts Options) error {
	guard := func(*Change) string { return "" }
	if !opts.Protected {
		var err error
		if guard, err = opts.Guard(o.meta.Base, o.meta.Protect, o.diff.Changes); err != nil {
			return fmt.Errorf("find the protected paths: %w", err)
		}
	}
	for i := range p.changes {
		c := &p.changes[i]
		switch why := guard(c); {
		case c.Problem != "":
			p.skip(i, c.Problem)
		case why != "":
			p.skip(i, "it is protected: "+why)
		case c.Conflict != "":
			p.skip(i, c.Conflict)
			p.conflict[i] = true
		}
	}
	// The entries of a directory follow it in the list. The first loop goes up from the
	// entries to their directory, and the second loop goes down.
	for i := range p.changes {
		c := &p.changes[i]
		if c.WasType == typeDir || c.Kind == Deleted && c.Type == typeDir {
			p.within(i, func(j int) {
				if p.why[j] != "" {
					p.skip(i, "something in it is not applied")
				}
			})
		}
	}
	for i := range p.changes {
		if c := &p.changes[i]; p.why[i] != "" && (c.WasType != "" || c.Kind == Added && c.Type == typeDir) {
			p.within(i, func(j int) { p.skip(j, "it is in "+quotePath(c.name)+", which is not applied") })
		}
	}
	return nil
}

// within calls f for all changes in the directory that change i is or was.
func (p *planned) within(i int, f func(j int)) {
	prefix := p.changes[i].name + "/"
	for j := i + 1; j < len(p.changes) && strings.HasPrefix(p.changes[j].name, prefix); j++ {
		f(j)
	}
}

// report adds the changes that will be applied to r, and the reasons why the others will
// not.
func (p *planned) report(r *Report) {
	for i := range p.changes {
		c := p.changes[i]
		switch s := (Skip{c.Path, c.PathB64, p.why[i]}); {
		case p.why[i] == "":
			r.Applied = append(r.Applied, c)
		case p.conflict[i]:
			r.Conflicts = append(r.Conflicts, s)
		default:
			r.Skipped = append(r.Skipped, s)
		}
	}
}

// applying is one running Apply.
type applying struct {
	*open
	*planned
	report *Report
	token  string // beginning of the names of its scratch files
	last   int    // number in the name of the last scratch file
	record *marker
	linked map[uint64]bool // inodes of base files with several names, if one name was applied already
	shown  *digest         // digest of what a person saw; nil if none was given
}

// run applies the changes in an order in which nothing is lost: first it deletes
// what is in the way of new files, then it writes new files, then it deletes the
// rest.
func (a *applying) run(ctx context.Context) error {
	a.report.Applied = []Change{}
	if err := a.begin(); err != nil {
		return err
	}
	defer a.record.close()
	inWay := make([]bool, len(a.changes))
	for i := range a.changes {
		if a.changes[i].WasType == typeDir {
			a.within(i, func(j int) { inWay[j] = true })
		}
	}
	deleted := func(i int) bool { return a.changes[i].Kind == Deleted }
	var order []int
	for i := range slices.Backward(a.changes) {
		if deleted(i) && inWay[i] {
			order = append(order, i)
		}
	}
	for i := range a.changes {
		if !deleted(i) {
			order = append(order, i)
		}
	}
	for i := range slices.Backward(a.changes) {
		if deleted(i) && !inWay[i] {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if ctx.Err() != nil {
			return fmt.Errorf("it was interrupted, and some files may have been applied; apply again to do the rest: %w", context.Cause(ctx))
		}
		if a.why[i] == "" {
			a.one(ctx, i)
		}
	}
	for i := range slices.Backward(a.changes) { // permissions of directories come last: some forbid new entries
		if c := &a.changes[i]; a.why[i] == "" && c.Kind != Deleted && c.Type == typeDir {
			if err := a.chmod(c); err != nil {
				a.failed(i, err)
			}
		}
	}
	return a.conclude()
}

// one applies one change.
func (a *applying) one(ctx context.Context, i int) {
	c := &a.changes[i]
	err := a.put(ctx, c)
	if errors.Is(err, errMoved) {
		a.conflict[i] = true
	}
	if err != nil {
		a.failed(i, err)
		return
	}
	if c.Kind != Deleted && c.Type != typeDir {
		a.record.add(a.base, c.name)
	}
	if c.Kind == Deleted && a.seen[c.name] {
		a.addSeen("-", []string{c.name}) // a file that Apply removed is not a person's deletion
	}
}

// failed records that change i could not be applied, and neither could the changes below
// it.
func (a *applying) failed(i int, err error) {
	a.skip(i, cause(err))
	if c := &a.changes[i]; c.Kind != Deleted && c.Type == typeDir {
		a.within(i, func(j int) { a.skip(j, "it is in "+quotePath(c.name)+", which could not be made") })
	}
}

// conclude makes all changes durable and completes the report.
func (a *applying) conclude() error {
	if err := unix.Syncfs(int(a.base.Fd())); err != nil {
		return fmt.Errorf("write it to the disk: %w", err)
	}
	a.report.Applied, a.report.Skipped, a.report.Conflicts = []Change{}, nil, nil
	a.planned.report(a.report)
	return nil
}

// finish removes the journal, and begins the set anew if all of it was applied and
// no box works in it.
func (a *applying) finish(all bool) error {
	a.noteUse() // the set is not written if a part of it stays
	done := all && len(a.report.Skipped)+len(a.report.Conflicts) == 0
	if done && !a.diff.Live {
		if err := a.alone(); err != nil {
			return err
		}
		m := &a.meta
		top, err := a.store.newLayer(m)
		if err != nil {
			return err
		}
		since, pass := settle()
		defer pass()
		m.Top, m.Layers, m.Checkpoints, m.Since = top, nil, nil, since
		if err := a.write(); err != nil {
			return err
		}
		for _, name := range []string{appliedName, seenName} { // these records are about the old layers
			_ = unix.Unlinkat(int(a.dir.Fd()), name, 0)
		}
		a.report.Emptied = true
		a.store.collect()
		a.store.sweep()
	}
	if err := unix.Unlinkat(int(a.dir.Fd()), journalName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("end the journal: %w", err)
	}
	return nil
}
