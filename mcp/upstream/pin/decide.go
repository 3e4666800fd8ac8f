package pin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/store"
)

// Errors of decisions.
var (
	ErrPerson = errors.New("only a person can decide what is trusted")
	ErrStale  = errors.New("the server no longer offers this; look at the difference again")
)

// Via is how a person made a decision. Tool calls have no value, because an agent
// cannot decide.
type Via string

// The ways in which a person can decide.
const (
	ViaCommand Via = "command" // the command belljar upstream, over the control socket or in the state directory
	ViaConsole Via = "console"
	ViaDesk    Via = "desk" // an answer to a question
)

// Person is the person who decides.
type Person struct {
	Name string // name of the user or the account, never of an agent
	Via  Via
}

// valid returns ErrPerson if this is not a person.
func (p Person) valid() error {
	odd := func(r rune) bool { return !printable.InLine(r) }
	if strings.TrimSpace(p.Name) == "" || len(p.Name) > maxText || strings.ContainsFunc(p.Name, odd) || !slices.Contains([]Via{ViaCommand, ViaConsole, ViaDesk}, p.Via) {
		return fmt.Errorf("%w: %q by way of %q is not a person", ErrPerson, p.Name, p.Via)
	}
	return nil
}

// Ref is a definition as a person has seen it.
type Ref struct {
	Kind   Kind
	Name   string
	Digest Digest // digest of the shown definition; zero if the definition is gone
}

// String names the definition in one line, such as "tool read_file". Hidden characters in
// the name are made visible.
func (r Ref) String() string {
	if r.Kind.whole() {
		return string(r.Kind)
	}
	return string(r.Kind) + " " + word(r.Name)
}

// Decision is a person's decision about definitions of one server.
type Decision struct {
	By    Person
	Trust bool // if false, the definitions stay held, and nobody is asked about them again
	Items []Ref
}

// Decide records a decision. It is for the digests that the person saw: if the server now
// offers something else, nothing is recorded and the error is ErrStale. Trusting a
// definition that is gone removes its pin. The same decision again changes nothing and is
// not an error.
func (b *Book) Decide(ctx context.Context, s Server, d Decision) error {
	if err := errors.Join(s.valid(), d.By.valid()); err != nil {
		return fmt.Errorf("decide about the server %s: %w", word(s.Name), err)
	}
	err := b.write(ctx, s.Tenant, func(tx *sql.Tx, c *chain) (*chain, error) {
		r, err := load(ctx, tx, c, s)
		if err != nil {
			return nil, err
		}
		var changed []Pin
		for _, ref := range d.Items {
			p, err := r.decide(s.Name, ref, d.Trust, b.now())
			if err != nil {
				return nil, err
			}
			if p != nil {
				changed = append(changed, *p)
			}
		}
		if len(changed) == 0 {
			return c, nil
		}
		r.contact(s.Name, changed)
		e := &Entry{By: d.By.Name, Via: string(d.By.Via), What: wasRefused, Detail: detail(changed)}
		if d.Trust {
			e.What = wasTrusted
		}
		return save(ctx, tx, c, s, r, e, b.now())
	})
	if err != nil {
		return fmt.Errorf("decide about the server %s: %w", word(s.Name), remedy(err))
	}
	return nil
}

// decide applies a decision about one definition. It returns the pin that it has added or
// removed, or the refusal that it has added; nil if the same was decided before.
func (r record) decide(server string, ref Ref, trust bool, now time.Time) (*Pin, error) {
	p := Pin{server, ref.Kind, ref.Name, ref.Digest, now, Decided}
	at := p.key()
	pin, trusted := r.trusted[at]
	no, denied := r.refused[at]
	_, isGone := r.gone[at]
	waits, isOffered := r.offered[at]
	switch {
	case ref.Digest == (Digest{}) && trust && isGone:
		delete(r.trusted, at)
		delete(r.gone, at)
		return &pin, nil
	case ref.Digest == (Digest{}):
		return nil, fmt.Errorf("%s %s: %w", ref.Kind, word(ref.Name), ErrStale)
	case trust && trusted && pin.Digest == ref.Digest, !trust && denied && no.Digest == ref.Digest:
		return nil, nil //nolint:nilnil // there is nothing to change
	case trust && isOffered && waits.Digest == ref.Digest:
		delete(r.refused, at)
		delete(r.offered, at)
		r.trusted[at] = p
	case !trust && (isOffered && waits.Digest == ref.Digest || trusted && pin.Digest == ref.Digest):
		if p.How = Refused; pin.Digest == ref.Digest {
			delete(r.trusted, at) // the definition was trusted, and no longer is
			p.How = offered
			r.offered[at] = p
			p.How = Refused
		}
		r.refused[at] = p
	default:
		return nil, fmt.Errorf("%s %s: %w", ref.Kind, word(ref.Name), ErrStale)
	}
	return &p, nil
}

// contact records that the server's lists have been seen, if pins are about them: from now
// on, nothing is trusted on first use.
func (r record) contact(server string, pins []Pin) {
	about := slices.IndexFunc(pins, func(p Pin) bool { return p.Kind != KindRuns })
	listing := key{kind: KindListing}
	if _, seen := r.trusted[listing]; about < 0 || seen {
		return
	}
	p := Pin{server, KindListing, "", ofText(new(canon), KindListing, "seen").digest, pins[about].Since, pins[about].How}
	if p.How == Refused {
		p.How = Decided
	}
	r.trusted[listing] = p
}

// Forget removes all pins of a server: its next contact counts as the first one.
func (b *Book) Forget(ctx context.Context, s Server, by Person) error {
	err := errors.Join(s.valid(), by.valid())
	if err == nil {
		err = b.write(ctx, s.Tenant, func(tx *sql.Tx, c *chain) (*chain, error) {
			if err := remove(ctx, tx, s); err != nil {
				return nil, err
			}
			if _, there := c.records[place{s.Place, s.Name}]; !there {
				return c, nil
			}
			return c.put(ctx, tx, s.Tenant, entry{Entry: Entry{At: b.now(), By: by.Name, Via: string(by.Via), Place: s.Place, Server: s.Name, What: wasForgotten}})
		})
	}
	if err != nil {
		return fmt.Errorf("forget the pins of the server %s: %w", word(s.Name), remedy(err))
	}
	return nil
}

// Reset removes all pins of a tenant and the log of its decisions, whatever state they are in.
func (b *Book) Reset(ctx context.Context, tenant string, by Person) error {
	err := errors.Join(Server{Tenant: tenant, Name: "-"}.valid(), by.valid())
	var next *chain
	if err == nil {
		err = b.kept.Write(ctx, func(tx *sql.Tx) error {
			if err := remove(ctx, tx, Server{Tenant: tenant}); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM pins_log WHERE tenant = ?", tenant); err != nil {
				return err
			}
			next, err = (&chain{}).put(ctx, tx, tenant, entry{Entry: Entry{At: b.now(), By: by.Name, Via: string(by.Via), What: wasReset}})
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("start over with the pins: %w", err)
	}
	b.setChain(tenant, next)
	return nil
}

// Export returns the pins of all servers of a tenant in a workspace, for Format.
func (b *Book) Export(ctx context.Context, tenant, at string) (pins []Pin, _ error) {
	err := b.read(ctx, tenant, func(tx *sql.Tx, c *chain) error {
		for _, name := range c.servers(at) {
			r, err := load(ctx, tx, c, Server{tenant, at, name})
			if err != nil {
				return err
			}
			pins = append(pins, lines(r.trusted)...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("export pins: %w", remedy(err))
	}
	return pins, nil
}

// Import replaces the pins of the servers in a file by the pins in the file. Servers that
// the file does not name keep their pins.
func (b *Book) Import(ctx context.Context, tenant, at string, pins []Pin, by Person) error {
	byServer := make(map[string][]Pin)
	err := by.valid()
	for _, p := range pins {
		if !p.How.mark() {
			p.How = Import
			byServer[p.Server] = append(byServer[p.Server], p)
			err = errors.Join(err, Server{tenant, at, p.Server}.valid())
		}
	}
	if err == nil {
		err = b.write(ctx, tenant, func(tx *sql.Tx, c *chain) (*chain, error) {
			for _, p := range sorted(pins) {
				s := Server{tenant, at, p.Server}
				all := byServer[p.Server]
				delete(byServer, p.Server)
				if len(all) == 0 {
					continue
				}
				if _, err := load(ctx, tx, c, s); err != nil {
					return nil, err
				}
				r := recordOf(all)
				r.contact(s.Name, all)
				var err error
				if c, err = save(ctx, tx, c, s, r, &Entry{By: by.Name, Via: string(by.Via), What: wasImported, Detail: detail(all)}, b.now()); err != nil {
					return nil, err
				}
			}
			return c, nil
		})
	}
	if err != nil {
		return fmt.Errorf("import pins: %w", remedy(err))
	}
	return nil
}

// History returns the log of a tenant, the oldest entry first.
func (b *Book) History(ctx context.Context, tenant string) (log []Entry, _ error) {
	err := b.read(ctx, tenant, func(tx *sql.Tx, _ *chain) error {
		all, err := entries(ctx, tx, tenant, 0)
		for _, e := range all {
			log = append(log, e.Entry)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of pins: %w", remedy(err))
	}
	return log, nil
}

// Servers returns the servers of a tenant in a workspace that have pins, or that wait for a
// person's decision.
func (b *Book) Servers(ctx context.Context, tenant, at string) (names []string, _ error) {
	err := b.kept.Read(ctx, func(tx *sql.Tx) (err error) {
		names, err = store.Rows(ctx, tx, store.Text, "SELECT server FROM pins_servers WHERE tenant = ? AND place = ? ORDER BY server", tenant, at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the servers that have pins: %w", remedy(err))
	}
	return names, nil
}

// All returns the servers of all tenants and workspaces that have pins, or that wait for a
// person's decision.
func (b *Book) All(ctx context.Context) (all []Server, _ error) {
	err := b.kept.Read(ctx, func(tx *sql.Tx) (err error) {
		all, err = store.Rows(ctx, tx, func(row *sql.Rows) (s Server, err error) {
			err = row.Scan(&s.Tenant, &s.Place, &s.Name)
			return s, err
		}, "SELECT tenant, place, server FROM pins_servers ORDER BY tenant, place, server")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the servers that have pins: %w", remedy(err))
	}
	return all, nil
}

// Tenants returns the tenants that have pins, or a log of decisions.
func (b *Book) Tenants(ctx context.Context) (names []string, _ error) {
	err := b.kept.Read(ctx, func(tx *sql.Tx) (err error) {
		names, err = store.Rows(ctx, tx, store.Text, "SELECT tenant FROM pins_servers UNION SELECT tenant FROM pins_log ORDER BY tenant")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the tenants that have pins: %w", remedy(err))
	}
	return names, nil
}
