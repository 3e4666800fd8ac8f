package plan

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/store"
)

// Bounds of what is kept.
const (
	MaxText   = 256 << 10 // most bytes of a plan
	MaxGoal   = 1000      // most characters of a goal
	maxActive = 200       // most sessions of one tenant in one workspace that plan
	maxSaved  = 200       // most plans of one tenant in one workspace; the oldest are removed
	maxOrphan = 24 * time.Hour
)

// Mode is the plan mode of a session.
type Mode struct {
	Goal    string
	File    string // name of the plan; empty if none was given
	Started time.Time
}

// Plan is a saved plan.
type Plan struct {
	File  string // name of the plan below the plans directory
	Goal  string
	Text  string
	Saved time.Time
}

// The errors of a wrong request. Returned errors wrap them, and their text is for the
// agent.
var (
	ErrActive   = errors.New("plan mode is already active; exit, or reset, ends it")
	ErrInactive = errors.New("plan mode is not active; enter begins it")
	ErrFile     = errors.New("plan_file cannot be used")
	ErrText     = errors.New("the text cannot be kept")
	ErrUnknown  = errors.New("no such plan")
)

// Config is the configuration of a Book.
type Config struct {
	store.Config
	Dir string // plans directory of a workspace, made when needed; if Dir is "", no files are written
}

// Book keeps the plans, and the sessions that plan. Several processes may have a Book over
// the same store. Its methods are safe for concurrent use; it need not be closed. A change
// is on the disk when the method that writes it returns without an error.
type Book struct {
	kept store.Book
	dir  string
}

// schema is the tables of plans. Times are milliseconds since 1970.
var schema = store.Schema{Name: "plans", Steps: []string{`
	CREATE TABLE plans_active (
		tenant TEXT NOT NULL, place TEXT NOT NULL, session TEXT NOT NULL,
		self TEXT NOT NULL, goal TEXT NOT NULL, file TEXT NOT NULL, started INTEGER NOT NULL,
		PRIMARY KEY (tenant, place, session)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE plans_saved (
		tenant TEXT NOT NULL, place TEXT NOT NULL, file TEXT NOT NULL,
		goal TEXT NOT NULL, text TEXT NOT NULL, saved INTEGER NOT NULL,
		PRIMARY KEY (tenant, place, file)
	) STRICT;
`}}

// New returns the Book in a store. It does not open the database.
func New(cfg Config) *Book { return &Book{store.NewBook(cfg.Config, schema), cfg.Dir} }

// Enter records that a session plans.
func (b *Book) Enter(ctx context.Context, o store.Owner, goal, file string) (m Mode, err error) {
	goal = oneLine(goal)
	if n := utf8.RuneCountInString(goal); n > MaxGoal {
		return m, fmt.Errorf("%w: the goal has %d characters, and %d are kept", ErrText, n, MaxGoal)
	}
	if file != "" {
		if file, err = fileName(file); err != nil {
			return m, err
		}
	}
	m = Mode{Goal: goal, File: file, Started: b.kept.Now().Truncate(time.Millisecond)}
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		if _, err := b.active(ctx, tx, o); !errors.Is(err, ErrInactive) {
			if err == nil {
				err = ErrActive
			}
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO plans_active VALUES (?, ?, ?, ?, ?, ?, ?)", o.Tenant, b.kept.Place, o.Session, b.kept.Self, goal, file, m.Started.UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM plans_active WHERE tenant = ?1 AND place = ?2 AND session IN (
			SELECT session FROM plans_active WHERE tenant = ?1 AND place = ?2 ORDER BY started DESC, session LIMIT -1 OFFSET ?3)`, o.Tenant, b.kept.Place, maxActive)
		return err
	})
	return m, err
}

// Mode returns the plan mode of a session, or ErrInactive if the session does not plan.
func (b *Book) Mode(ctx context.Context, o store.Owner) (m Mode, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		m, err = b.active(ctx, tx, o)
		return err
	})
	return m, err
}

func (b *Book) active(ctx context.Context, tx *sql.Tx, o store.Owner) (m Mode, err error) {
	var started int64
	err = tx.QueryRowContext(ctx, "SELECT goal, file, started FROM plans_active WHERE tenant = ? AND place = ? AND session = ?", o.Tenant, b.kept.Place, o.Session).
		Scan(&m.Goal, &m.File, &started)
	if errors.Is(err, sql.ErrNoRows) {
		return m, ErrInactive
	}
	m.Started = time.UnixMilli(started)
	return m, err
}

// Adopt lets a new session take over the plan mode of a session whose process is gone, so
// that the conversation can continue with what the agent knows of the plan. It returns
// ErrInactive if there is no such session.
func (b *Book) Adopt(ctx context.Context, o store.Owner) (m Mode, err error) {
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		session, err := b.orphan(ctx, tx, o)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE plans_active SET session = ?, self = ? WHERE tenant = ? AND place = ? AND session = ?", o.Session, b.kept.Self, o.Tenant, b.kept.Place, session); err != nil {
			return err
		}
		m, err = b.active(ctx, tx, o)
		return err
	})
	return m, err
}

// orphan returns the session that began to plan last, within the last 24 hours, among the
// sessions whose process is gone.
func (b *Book) orphan(ctx context.Context, tx *sql.Tx, o store.Owner) (session string, err error) {
	type planner struct{ session, self string }
	all, err := store.Rows(ctx, tx, func(row *sql.Rows) (p planner, err error) {
		err = row.Scan(&p.session, &p.self)
		return p, err
	}, "SELECT session, self FROM plans_active WHERE tenant = ? AND place = ? AND started > ? ORDER BY started DESC, session",
		o.Tenant, b.kept.Place, b.kept.Now().Add(-maxOrphan).UnixMilli())
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if p.self != b.kept.Self && !b.kept.Alive(p.self) {
			return p.session, nil
		}
	}
	return "", ErrInactive
}

// Leave ends the plan mode of a session.
func (b *Book) Leave(ctx context.Context, o store.Owner) error {
	return b.kept.Write(ctx, func(tx *sql.Tx) error {
		if _, err := b.active(ctx, tx, o); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM plans_active WHERE tenant = ? AND place = ? AND session = ?", o.Tenant, b.kept.Place, o.Session)
		return err
	})
}

// Save keeps a plan, and replaces a plan of the same name. If file is empty, the name is
// that of the mode, or is made from the goal.
func (b *Book) Save(ctx context.Context, o store.Owner, m Mode, file, text string) (p Plan, err error) {
	if p, err = b.Draft(m, file, text); err != nil {
		return p, err
	}
	p.Saved = b.kept.Now().Truncate(time.Millisecond)
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO plans_saved VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET goal = excluded.goal, text = excluded.text, saved = excluded.saved",
			o.Tenant, b.kept.Place, p.File, p.Goal, p.Text, p.Saved.UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM plans_saved WHERE tenant = ?1 AND place = ?2 AND file IN (
			SELECT file FROM plans_saved WHERE tenant = ?1 AND place = ?2 ORDER BY saved DESC, file LIMIT -1 OFFSET ?3)`, o.Tenant, b.kept.Place, maxSaved)
		return err
	})
	if err == nil && b.dir != "" {
		err = writeFile(b.dir, o.Tenant, p.File, p.Text)
	}
	return p, err
}

// Draft returns the plan that Save would keep, or the error that Save would return.
func (b *Book) Draft(m Mode, file, text string) (p Plan, err error) {
	if file == "" {
		file = m.File
	}
	if file == "" {
		file = m.Started.UTC().Format("2006-01-02-150405") + slug(m.Goal) + ".md"
	}
	if file, err = fileName(file); err != nil {
		return p, err
	}
	switch {
	case len(text) > MaxText:
		return p, fmt.Errorf("%w: the plan has %d bytes, and %d are kept", ErrText, len(text), MaxText)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return p, fmt.Errorf("%w: the plan is not text in UTF-8", ErrText)
	}
	return Plan{File: file, Goal: m.Goal, Text: text}, nil
}

// Read returns a saved plan of the tenant, or ErrUnknown.
func (b *Book) Read(ctx context.Context, tenant, file string) (p Plan, err error) {
	if file, err = fileName(file); err != nil {
		return p, err
	}
	var saved int64
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT file, goal, text, saved FROM plans_saved WHERE tenant = ? AND place = ? AND file = ?", tenant, b.kept.Place, file).
			Scan(&p.File, &p.Goal, &p.Text, &saved)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return p, fmt.Errorf("%w: %s", ErrUnknown, file)
	}
	p.Saved = time.UnixMilli(saved)
	return p, err
}

// List returns the saved plans of a tenant without their texts, the newest first.
func (b *Book) List(ctx context.Context, tenant string) (all []Plan, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		all, err = store.Rows(ctx, tx, func(row *sql.Rows) (p Plan, err error) {
			var saved int64
			err = row.Scan(&p.File, &p.Goal, &saved)
			p.Saved = time.UnixMilli(saved)
			return p, err
		}, "SELECT file, goal, saved FROM plans_saved WHERE tenant = ? AND place = ? ORDER BY saved DESC, file", tenant, b.kept.Place)
		return err
	})
	return all, err
}

// Told reports whether the text of an error is for the agent.
func Told(err error) bool {
	return slices.ContainsFunc([]error{ErrActive, ErrInactive, ErrFile, ErrText, ErrUnknown}, func(e error) bool { return errors.Is(err, e) })
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}
