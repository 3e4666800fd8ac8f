package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/store"
)

// Bounds of the stored tokens.
const (
	maxTokens = 4096 // number of tokens, with the revoked and expired tokens, which are removed if more room is needed
	maxScopes = 32
	maxScope  = 64  // bytes
	maxNote   = 200 // characters
	maxLife   = 10 * 365 * 24 * time.Hour
)

// Token describes a token made by belljar, without the secret.
type Token struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Scopes  []string  `json:"scopes,omitempty"` // what the token may be used for; nil for everything
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero if the token never expires
	Used    time.Time `json:"used,omitzero"`    // last use, to the minute; zero if it was never used
	Revoked time.Time `json:"revoked,omitzero"` // zero if the token is not revoked
}

// Principal names the owner of the sessions that the token opens.
func (t *Token) Principal() string { return ownPrincipal + t.ID }

// ownPrincipal is the prefix of the principals of belljar's own tokens. No other principal
// has it.
const ownPrincipal = "token:"

// State returns why a token is not accepted any more: Revoked or Expired. It is empty for a
// valid token.
func (t *Token) State(now time.Time) Reason {
	switch {
	case !t.Revoked.IsZero():
		return Revoked
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return Expired
	}
	return ""
}

// kept is a Token and the HMAC of its secret.
type kept struct {
	Token
	mac []byte
}

// Book contains the tokens of a state directory. Several processes may each have a Book for
// the same directory. Its methods are safe for concurrent use; it need not be closed. A
// change is on the disk when the method that writes it has returned without an error.
type Book struct {
	state  string
	tables *store.Tables
	now    func() time.Time
}

// schema describes the tables of tokens. Times are milliseconds since 1970, or 0 if there
// is no such time. The scopes are separated by spaces; NULL means all scopes. changes
// counts the changes that a server must notice; the use of a token is not one of them.
var schema = store.Schema{Name: "tokens", Steps: []string{`
	CREATE TABLE tokens_all (
		id TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL, scopes TEXT, note TEXT NOT NULL, mac BLOB NOT NULL,
		created INTEGER NOT NULL, expires INTEGER NOT NULL, used INTEGER NOT NULL, revoked INTEGER NOT NULL
	) STRICT;
	CREATE TABLE tokens_changes (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), changes INTEGER NOT NULL) STRICT;
	INSERT INTO tokens_changes VALUES (1, 0);
`}}

// NewBook returns the book of a state directory and its store. now is the clock; nil means
// time.Now. NewBook opens nothing.
func NewBook(state string, kept *store.Store, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{state: state, tables: kept.Tables(schema), now: now}
}

// Errors of a request that cannot be granted. Other errors wrap them.
var (
	ErrToken   = errors.New("the token cannot be made")
	ErrUnknown = errors.New("no such token")
)

// Create makes a token for a tenant, with the scopes, the note and the expiry of t. It
// returns the token itself, which is not stored.
func (b *Book) Create(ctx context.Context, t Token) (_ Token, token string, err error) {
	now := b.now().Truncate(time.Millisecond)
	t.Created, t.Used, t.Revoked = now, time.Time{}, time.Time{}
	if err := t.check(now); err != nil {
		return t, "", err
	}
	err = b.change(ctx, func(tx *sql.Tx) error {
		// In the transaction, so that no other process creates or revokes tokens meanwhile.
		key, err := b.keyFor(ctx, tx)
		if err != nil {
			return err
		}
		if err := b.makeRoom(ctx, tx); err != nil {
			return err
		}
		id, secret, text := newToken()
		t.ID, token = id, text
		var scopes any
		if t.Scopes != nil {
			scopes = strings.Join(t.Scopes, " ")
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO tokens_all VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)",
			id, t.Tenant, scopes, t.Note, macOf(key, id, secret), millis(t.Created), millis(t.Expires))
		return err
	})
	if err != nil {
		return t, "", err
	}
	return t, token, nil
}

// check returns an error if a token cannot be created like this.
func (t *Token) check(now time.Time) error {
	switch {
	case t.Tenant == "":
		return fmt.Errorf("%w: it needs a tenant", ErrToken)
	case utf8.RuneCountInString(t.Note) > maxNote || strings.ContainsFunc(t.Note, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%w: the note must be one line of at most %d characters", ErrToken, maxNote)
	case len(t.Scopes) > maxScopes:
		return fmt.Errorf("%w: it has %d scopes, and at most %d are allowed", ErrToken, len(t.Scopes), maxScopes)
	case !t.Expires.IsZero() && !t.Expires.After(now):
		return fmt.Errorf("%w: it would expire immediately", ErrToken)
	case t.Expires.Sub(now) > maxLife:
		return fmt.Errorf("%w: it would live for more than 10 years", ErrToken)
	}
	for _, s := range t.Scopes {
		if !validScope(s) {
			return fmt.Errorf("%w: %.80q is not the name of a scope", ErrToken, s)
		}
	}
	slices.Sort(t.Scopes)
	t.Scopes = slices.Compact(t.Scopes)
	return nil
}

// validScope reports whether a text is a scope-token of RFC 6749, 3.3.
func validScope(s string) bool {
	return s != "" && len(s) <= maxScope && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

// keyFor returns the key for a new token. If the key is gone, keyFor does not make another
// one while there are valid tokens that were made with it: the key may come back from a
// backup.
func (b *Book) keyFor(ctx context.Context, tx *sql.Tx) ([]byte, error) {
	key, err := readKey(b.state)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	all, err := read(ctx, tx)
	if err != nil {
		return nil, err
	}
	now := b.now()
	if slices.ContainsFunc(all, func(t kept) bool { return t.State(now) == "" }) {
		return nil, fmt.Errorf("%w: %s of the state directory is gone, and tokens were made with it; restore it from a backup, or revoke all tokens", ErrToken, keyFile)
	}
	return makeKey(b.state)
}

// makeRoom removes the token that has been revoked or expired for the longest time, if the
// maximum number of tokens is reached.
func (b *Book) makeRoom(ctx context.Context, tx *sql.Tx) error {
	var count int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM tokens_all").Scan(&count); err != nil || count < maxTokens {
		return err
	}
	res, err := tx.ExecContext(ctx, `DELETE FROM tokens_all WHERE id = (
		SELECT id FROM tokens_all WHERE revoked > 0 OR expires BETWEEN 1 AND ?1
		ORDER BY iif(revoked > 0, revoked, expires), id LIMIT 1)`, millis(b.now()))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("%w: there are %d valid tokens, which is the limit; revoke some", ErrToken, maxTokens))
	}
	return nil
}

// List returns all tokens, the oldest first.
func (b *Book) List(ctx context.Context) ([]Token, error) {
	all := []Token{}
	err := b.tables.Read(ctx, func(tx *sql.Tx) error {
		rows, err := read(ctx, tx)
		for _, t := range rows {
			all = append(all, t.Token)
		}
		return err
	})
	return all, err
}

// Revoke revokes tokens, and returns those that were valid until now. It revokes all of
// them, or none if one of the ids is unknown.
func (b *Book) Revoke(ctx context.Context, ids []string) ([]Token, error) {
	now := b.now().Truncate(time.Millisecond)
	revoked := []Token{}
	err := b.change(ctx, func(tx *sql.Tx) error {
		all, err := read(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			i := slices.IndexFunc(all, func(t kept) bool { return t.ID == id })
			if i < 0 {
				return fmt.Errorf("%w: %.40q", ErrUnknown, id)
			}
			if t := &all[i].Token; t.Revoked.IsZero() {
				t.Revoked = now
				revoked = append(revoked, *t)
			}
			if _, err := tx.ExecContext(ctx, "UPDATE tokens_all SET revoked = ? WHERE id = ? AND revoked = 0", millis(now), id); err != nil {
				return err
			}
		}
		return nil
	})
	return revoked, err
}

// change runs f in a transaction, and counts it as a change that servers notice.
func (b *Book) change(ctx context.Context, f func(tx *sql.Tx) error) error {
	return b.tables.Write(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE tokens_changes SET changes = changes + 1")
		return err
	})
}

// used writes when tokens were last used.
func (b *Book) used(ctx context.Context, last map[string]time.Time) error {
	return b.tables.Write(ctx, func(tx *sql.Tx) error {
		for id, at := range last {
			if _, err := tx.ExecContext(ctx, "UPDATE tokens_all SET used = max(used, ?) WHERE id = ?", millis(at), id); err != nil {
				return err
			}
		}
		return nil
	})
}

// snapshot contains the tokens at one time.
type snapshot struct {
	changes int64 // number of changes of the book until then
	key     []byte
	byID    map[string]kept
}

// since returns the current tokens, or nil if there were no changes since the snapshot
// before.
func (b *Book) since(ctx context.Context, before *snapshot) (s *snapshot, err error) {
	err = b.tables.Read(ctx, func(tx *sql.Tx) error {
		var changes int64
		if err := tx.QueryRowContext(ctx, "SELECT changes FROM tokens_changes").Scan(&changes); err != nil {
			return err
		}
		if before != nil && before.changes == changes {
			return nil
		}
		all, err := read(ctx, tx)
		if err != nil {
			return err
		}
		s = &snapshot{changes: changes, byID: make(map[string]kept, len(all))}
		for _, t := range all {
			s.byID[t.ID] = t
		}
		return nil
	})
	if err != nil || s == nil || len(s.byID) == 0 {
		return s, err
	}
	// The key is read after the rows: it is on the disk before the first token that was
	// made with it.
	if s.key, err = readKey(b.state); err != nil {
		return nil, err
	}
	return s, nil
}

// read returns all rows, the oldest first.
func read(ctx context.Context, tx *sql.Tx) (all []kept, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT id, tenant, scopes, note, mac, created, expires, used, revoked FROM tokens_all ORDER BY created, id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			t                               kept
			scopes                          sql.NullString
			created, expires, used, revoked int64
		)
		if err := rows.Scan(&t.ID, &t.Tenant, &scopes, &t.Note, &t.mac, &created, &expires, &used, &revoked); err != nil {
			return nil, err
		}
		if scopes.Valid {
			t.Scopes = strings.Fields(scopes.String)
		}
		t.Created, t.Expires, t.Used, t.Revoked = fromMillis(created), fromMillis(expires), fromMillis(used), fromMillis(revoked)
		all = append(all, t)
	}
	return all, rows.Err()
}

// macOf returns the HMAC that is stored for a token. It covers the id, so the row of one
// token cannot be used for another.
func macOf(key []byte, id, secret string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "_" + secret))
	return h.Sum(nil)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
