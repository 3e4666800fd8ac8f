package login

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/keyfile"
	"belljar.dev/internal/store"
)

// Bounds of a Book.
const (
	maxOfTenant = 256 // most logins of a tenant
	maxLogins   = 4096
	maxName     = 512 // most bytes of the name of a tenant or a server
)

// keyFile is the file in the state directory that contains the key of the logins.
const keyFile = "upstream.key"

// claimFor is how long a process has the exclusive right to renew a login; a renewal takes
// less time. A refresh token can be used once, and an authorization server that sees one
// twice ends the login (RFC 9700, section 4.14.2). So only one of all processes renews at a
// time.
const claimFor = 2 * fetchTime

// Server identifies a login: a tenant's login at a server. A login for another tenant, name
// or URL is separate.
type Server struct {
	Tenant string
	Name   string // name of the server's entry
	URL    string
}

// normal returns the server with its URL in canonical form.
func (s Server) normal() (Server, error) {
	for _, text := range []string{s.Tenant, s.Name} {
		if len(text) > maxName || !utf8.ValidString(text) {
			return s, fmt.Errorf("the name %s of a tenant or server is longer than %d bytes or not UTF-8", show(text), maxName)
		}
	}
	if s.Name == "" {
		return s, errors.New("a server without a name has no login")
	}
	u, err := parseServer(s.URL)
	if err != nil {
		return s, err
	}
	s.URL = u.String()
	return s, nil
}

// schema is the table of logins. Times are milliseconds since 1970; 0 means no time.
// claimed is the end of a process's exclusive right to renew the tokens.
var schema = store.Schema{Name: "logins", Steps: []string{`
	CREATE TABLE logins_all (
		tenant TEXT NOT NULL, server TEXT NOT NULL, url TEXT NOT NULL,
		sealed BLOB NOT NULL, claimed INTEGER NOT NULL, changed INTEGER NOT NULL,
		PRIMARY KEY (tenant, server, url)
	) STRICT, WITHOUT ROWID;
`}}

// Book contains the logins of a state directory. Several processes may have a Book of the
// same directory. Its methods are safe for concurrent use, and it needs no Close. Its rows
// are encrypted with a key that is not in the database.
type Book struct {
	state string // directory; empty for a store in memory
	kept  store.Book

	watch store.Watch // wakes callers that wait for a renewal, by the name of the row

	mu     sync.Mutex
	memory []byte // guarded by mu: key of a store in memory; nil before its first use
}

// NewBook returns the book of a state directory and its store. It opens no file. state is
// empty for a store in memory.
func NewBook(state string, cfg store.Config) *Book {
	return &Book{state: state, kept: store.NewBook(cfg, schema)}
}

// ErrNone is the error for a server at which nobody has logged in. Errors wrap it.
var ErrNone = errors.New("nobody has logged in")

// Forget removes a login. If the login does not exist, that is not an error.
func (b *Book) Forget(ctx context.Context, s Server) error {
	s, err := s.normal()
	if err != nil {
		return err
	}
	return b.kept.Write(ctx, func(tx *sql.Tx) error { return remove(ctx, tx, s) })
}

func remove(ctx context.Context, tx *sql.Tx, s Server) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM logins_all WHERE tenant = ? AND server = ? AND url = ?", s.Tenant, s.Name, s.URL)
	return err
}

// keep stores a login in place of the earlier one.
func (b *Book) keep(ctx context.Context, s Server, g *grant) error {
	err := b.kept.Write(ctx, func(tx *sql.Tx) error {
		// The key is made within the transaction, so that only one of two processes makes
		// it. Logins that were sealed with a lost key cannot be opened, and the person must
		// log in again.
		key, err := b.key(true)
		if err != nil {
			return err
		}
		if err := put(ctx, tx, key, s, g, b.kept.Now()); err != nil {
			return err
		}
		return room(ctx, tx, s.Tenant)
	})
	if err != nil {
		return fmt.Errorf("store the login at %s: %w", show(s.Name), err)
	}
	return nil
}

// put writes a row without a claim.
func put(ctx context.Context, tx *sql.Tx, key []byte, s Server, g *grant, now time.Time) error {
	text, err := seal(key, s, g)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO logins_all VALUES (?, ?, ?, ?, 0, ?)
		ON CONFLICT DO UPDATE SET sealed = excluded.sealed, claimed = 0, changed = excluded.changed`, s.Tenant, s.Name, s.URL, text, now.UnixMilli())
	return err
}

// room returns an error if there are more logins than the bounds allow.
func room(ctx context.Context, tx *sql.Tx, tenant string) error {
	var all, own int
	err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(tenant = ?), 0) FROM logins_all", tenant).Scan(&all, &own)
	switch {
	case err != nil:
		return err
	case own > maxOfTenant:
		return fmt.Errorf("the tenant already has %d logins; remove an unused login", maxOfTenant)
	case all > maxLogins:
		return fmt.Errorf("there are already %d logins: remove logins that are no longer used", maxLogins)
	}
	return nil
}

// row is a stored login.
type row struct {
	*grant
	claimed int64 // end of the claim, as in the table
}

// find returns the login of a server.
func (b *Book) find(ctx context.Context, s Server) (r row, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) (err error) {
		r, err = b.load(ctx, tx, s)
		return err
	})
	return r, err
}

func (b *Book) load(ctx context.Context, tx *sql.Tx, s Server) (r row, err error) {
	var text []byte
	err = tx.QueryRowContext(ctx, "SELECT sealed, claimed FROM logins_all WHERE tenant = ? AND server = ? AND url = ?", s.Tenant, s.Name, s.URL).Scan(&text, &r.claimed)
	if errors.Is(err, sql.ErrNoRows) {
		return r, ErrNone
	}
	if err != nil {
		return r, err
	}
	key, err := b.key(false)
	if errors.Is(err, fs.ErrNotExist) {
		return r, errSealed
	}
	if err != nil {
		return r, err
	}
	r.grant, err = open(key, s, text)
	return r, err
}

// claim returns the present login of a server. If ours is true, the caller must renew the
// login and call settle. ours is false if the login is good or claimed by another caller.
func (b *Book) claim(ctx context.Context, s Server, good func(row) bool) (r row, ours bool, err error) {
	err = b.kept.Write(ctx, func(tx *sql.Tx) (err error) {
		now := b.kept.Now()
		if r, err = b.load(ctx, tx, s); err != nil || good(r) || r.claimed > now.UnixMilli() {
			return err
		}
		ours, r.claimed = true, now.Add(claimFor).UnixMilli()
		_, err = tx.ExecContext(ctx, "UPDATE logins_all SET claimed = ? WHERE tenant = ? AND server = ? AND url = ?", r.claimed, s.Tenant, s.Name, s.URL)
		return err
	})
	return r, ours && err == nil, err
}

// settle ends a claim. next is the new state of the login: r.grant if it could not be
// renewed, and nil if it has ended. Nothing is written if the person has logged in or out
// meanwhile.
func (b *Book) settle(ctx context.Context, s Server, r row, next *grant) error {
	defer b.watch.Wake(s.row())
	return b.kept.Write(ctx, func(tx *sql.Tx) error {
		var claimed int64
		err := tx.QueryRowContext(ctx, "SELECT claimed FROM logins_all WHERE tenant = ? AND server = ? AND url = ?", s.Tenant, s.Name, s.URL).Scan(&claimed)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && claimed != r.claimed:
			return nil
		case err != nil:
			return err
		case next == nil:
			return remove(ctx, tx, s)
		}
		key, err := b.key(false)
		if err != nil {
			return err
		}
		return put(ctx, tx, key, s, next, b.kept.Now())
	})
}

// drop removes a login whose token the server refuses, unless the login has another token
// meanwhile.
func (b *Book) drop(ctx context.Context, s Server, refused Token) error {
	return b.kept.Write(ctx, func(tx *sql.Tx) error {
		r, err := b.load(ctx, tx, s)
		switch {
		case errors.Is(err, ErrNone):
			return nil
		case err != nil:
			return err
		case !r.access.is(refused):
			return nil
		}
		return remove(ctx, tx, s)
	})
}

// row returns the name of a server's row.
func (s Server) row() string { return fmt.Sprintf("%q %q %q", s.Tenant, s.Name, s.URL) }

// key returns the key of the logins. If create is set, it makes a key that does not exist.
func (b *Book) key(create bool) ([]byte, error) {
	if b.state == "" {
		return b.inMemory(), nil
	}
	get := keyfile.Read
	if create {
		get = keyfile.Make
	}
	key, err := get(filepath.Join(b.state, keyFile))
	if errors.Is(err, keyfile.ErrUnfit) {
		return nil, fmt.Errorf("key of logins: %w; restore it from a backup, or remove it and log in again", err)
	}
	if err != nil {
		return nil, fmt.Errorf("key of logins: %w", err)
	}
	return key, nil
}

// inMemory returns the key of a store in memory, which ends with the program.
func (b *Book) inMemory() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.memory == nil {
		b.memory = make([]byte, keyfile.Size)
		rand.Read(b.memory)
	}
	return b.memory
}
