package pin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/store"
)

// Bounds of a Book.
const (
	maxCached = 256 // most verdicts, and most chains
	maxText   = 512 // most bytes of the name of a tenant, workspace or server
)

// Server identifies a server that has pins.
type Server struct {
	Tenant string
	// Place is the workspace whose file contains the server's entry. It is empty for an
	// entry of the operator: its pins are valid in all workspaces of the tenant. So an
	// entry of a workspace never uses the pins of an operator's entry that it replaces.
	Place string
	Name  string // name of the entry
}

// valid returns an error if the names cannot be kept.
func (s Server) valid() error {
	for _, text := range []string{s.Tenant, s.Place, s.Name} {
		if len(text) > maxText || !utf8.ValidString(text) {
			return fmt.Errorf("pins: the name %.40q of a tenant, workspace or server is longer than %d bytes or not UTF-8", text, maxText)
		}
	}
	if s.Name == "" {
		return errors.New("pins: a server without a name cannot be pinned")
	}
	return nil
}

// Rules determine how a server's definitions become trusted.
type Rules struct {
	Mode Mode
	// Known contains the pins to judge by in mode Strict. If it is nil, the pins that were
	// imported into the book are used. Callers should parse a file once: a verdict is
	// reused for the same Known.
	Known *Known
	// Others are the names of our own tools and of tools of other servers, for the scan.
	Others []string
}

// Book contains the pins of all servers that a process uses. Several processes may have a
// Book over the same store. Its methods are safe for concurrent use, and it needs no Close.
// When a method that changes the Book returns without an error, the change is on the disk.
type Book struct {
	kept store.Book

	mu       sync.Mutex
	verdicts map[Server]cached // guarded by mu
	chains   map[string]*chain // guarded by mu: chains by tenant
}

// cached is a verdict with the values that it depends on.
type cached struct {
	raw     Digest // digest of the offer's bytes
	sum     Digest // sum of the tenant's log
	mode    Mode
	known   *Known
	verdict *Verdict
}

// NewBook returns the book in a store. It opens nothing.
func NewBook(cfg store.Config) *Book {
	return &Book{kept: store.NewBook(cfg, schema), verdicts: make(map[Server]cached), chains: make(map[string]*chain)}
}

// Judge returns the verdict on what a server offers now: which parts may be started, listed
// and called. At first contact in mode TOFU it also records what becomes trusted. Callers
// call it before they start a server, with a nil Listing, and again after they have read
// the server's lists: after each connect, each list and each announced change.
//
// It never fails open: if the pins cannot be read or written, everything in the verdict is
// held, and its Err is the reason.
func (b *Book) Judge(ctx context.Context, s Server, rules Rules, o Offer) *Verdict {
	if err := s.valid(); err != nil {
		return heldBy(rules.Mode, err)
	}
	if rules.Mode == Off || rules.Mode == Strict && rules.Known != nil { // these modes need no store
		all, cut := takeApart(o)
		v, _ := judge(s.Name, rules, record{}, all, o.Listing != nil, b.now())
		return v.withCut(cut)
	}
	v, err := b.judge(ctx, s, rules, o)
	if err != nil {
		return heldBy(rules.Mode, remedy(err))
	}
	return v
}

func (b *Book) judge(ctx context.Context, s Server, rules Rules, o Offer) (*Verdict, error) {
	raw, err := rawDigest(o)
	if err != nil {
		return nil, err
	}
	var v *Verdict
	var all []served
	var cut int
	var write bool
	err = b.read(ctx, s.Tenant, func(tx *sql.Tx, c *chain) error {
		if v = b.cachedVerdict(s, raw, c.sum, rules); v != nil {
			return nil
		}
		r, err := load(ctx, tx, c, s)
		if err != nil {
			return err
		}
		all, cut = takeApart(o)
		var added []Pin
		v, added, err = b.compare(ctx, tx, s, rules, r, all, o.Listing != nil)
		write = len(added) > 0 || !sameMarks(r, v.mark(s.Name, r, o.Listing != nil, b.now()))
		if err == nil && !write {
			b.cache(s, cached{raw, c.sum, rules.Mode, rules.Known, v.withCut(cut)})
		}
		return err
	})
	if err != nil || !write {
		return v, err
	}
	var sum Digest
	err = b.write(ctx, s.Tenant, func(tx *sql.Tx, c *chain) (*chain, error) {
		// load again: another process may have written meanwhile
		r, err := load(ctx, tx, c, s)
		if err != nil {
			return nil, err
		}
		var added []Pin
		if v, added, err = b.compare(ctx, tx, s, rules, r, all, o.Listing != nil); err != nil {
			return nil, err
		}
		v = v.withCut(cut)
		var e *Entry
		if len(added) > 0 {
			e = &Entry{What: wasFirst, Detail: detail(added)}
		}
		for _, p := range added {
			r.trusted[p.key()] = p
		}
		r = v.mark(s.Name, r, o.Listing != nil, b.now())
		if c, err = save(ctx, tx, c, s, r, e, b.now()); err != nil {
			return nil, err
		}
		sum = c.sum
		return c, keepTexts(ctx, tx, s, r, all)
	})
	if err != nil {
		return nil, err
	}
	b.cache(s, cached{raw, sum, rules.Mode, rules.Known, v})
	return v, nil
}

// compare judges what is served, and finds definitions that were renamed.
func (b *Book) compare(ctx context.Context, tx *sql.Tx, s Server, rules Rules, r record, all []served, listed bool) (*Verdict, []Pin, error) {
	v, added := judge(s.Name, rules, r, all, listed, b.now())
	texts := make(map[Digest][]byte, len(all))
	for _, d := range all {
		texts[d.digest] = d.text
	}
	var failed error
	v.pair(func(d Digest) []byte {
		if text, there := texts[d]; there {
			return text
		}
		text, err := textOf(ctx, tx, s, d)
		failed = errors.Join(failed, err)
		return text
	})
	return v, added, failed
}

// withCut adds a note about definitions that were left out. Nobody else may have the
// verdict yet.
func (v *Verdict) withCut(cut int) *Verdict {
	if cut > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("the server offers %d definitions more than the %d that are compared; these further definitions are neither listed nor called", cut, MaxDefinitions))
	}
	return v
}

// now returns the time in whole seconds, like the times in files of pins.
func (b *Book) now() time.Time { return b.kept.Now().UTC().Truncate(time.Second) }

// cachedVerdict returns the verdict on the same bytes by the same pins, or nil.
func (b *Book) cachedVerdict(s Server, raw, sum Digest, rules Rules) *Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.verdicts[s]; ok && c.raw == raw && c.sum == sum && c.mode == rules.Mode && c.known == rules.Known {
		return c.verdict
	}
	return nil
}

func (b *Book) cache(s Server, c cached) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bounded(b.verdicts, s)
	b.verdicts[s] = c
}

// bounded makes room in a cache for a key, by deleting some other key
// if the cache is full.
func bounded[K comparable, V any](m map[K]V, next K) {
	if _, there := m[next]; there {
		return
	}
	for k := range m {
		if len(m) < maxCached {
			return
		}
		delete(m, k)
	}
}

// chain returns the verified log of a tenant.
func (b *Book) chain(ctx context.Context, tx *sql.Tx, tenant string) (*chain, error) {
	b.mu.Lock()
	known := b.chains[tenant]
	b.mu.Unlock()
	c, err := verified(ctx, tx, tenant, known)
	if err == nil && c != known {
		b.setChain(tenant, c)
	}
	return c, err
}

func (b *Book) setChain(tenant string, c *chain) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bounded(b.chains, tenant)
	b.chains[tenant] = c
}

// read runs f in a transaction with the verified log of a tenant.
func (b *Book) read(ctx context.Context, tenant string, f func(tx *sql.Tx, c *chain) error) error {
	return b.kept.Read(ctx, func(tx *sql.Tx) error {
		c, err := b.chain(ctx, tx, tenant)
		if err != nil {
			return err
		}
		return f(tx, c)
	})
}

// write runs f in a transaction with the verified log of a tenant. f returns the log with
// its additions. The book uses that log once it is on the disk.
func (b *Book) write(ctx context.Context, tenant string, f func(tx *sql.Tx, c *chain) (*chain, error)) error {
	var next *chain
	err := b.kept.Write(ctx, func(tx *sql.Tx) error {
		c, err := b.chain(ctx, tx, tenant)
		if err != nil {
			return err
		}
		next, err = f(tx, c)
		return err
	})
	if err == nil {
		b.setChain(tenant, next)
	}
	return err
}

// remedy adds what the operator can do to an error of the pins. Errors of the store already
// contain that.
func remedy(err error) error {
	switch {
	case errors.Is(err, ErrBroken):
		return fmt.Errorf("%w; restore a backup with `belljar state restore FILE`, or start over with `belljar upstream pins forget --all`, "+
			"after which every server is trusted or asked about as at first contact", err)
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%w; use the newer belljar, or name another state directory with --state", err)
	}
	return err
}

// servers returns the servers in a workspace that the log of a tenant has records of.
func (c *chain) servers(at string) []string {
	var all []string
	for p := range maps.Keys(c.records) {
		if p.place == at {
			all = append(all, p.server)
		}
	}
	slices.Sort(all)
	return all
}
