package plan

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/store"
)

// Bounds of what is kept.
const (
	MaxText   = 256 << 10 // bytes of a plan
	MaxGoal   = 1000      // characters
	maxActive = 200       // sessions of one tenant in one workspace that plan
	maxSaved  = 200       // plans of one tenant in one workspace; the oldest make room
	maxOrphan = 24 * time.Hour
)

// Owner is whose plans they are.
type Owner struct {
	Tenant  string
	Session string
}

// Mode is a session that plans.
type Mode struct {
	Goal    string
	File    string // name of the plan, where one was said
	Started time.Time
}

// Plan is one that was saved.
type Plan struct {
	File  string // its name below the plans directory
	Goal  string
	Text  string
	Saved time.Time
}

// What can be wrong with what was asked for. Errors wrap them, and their text is
// for the agent.
var (
	ErrActive   = errors.New("plan mode is already active; exit, or reset, ends it")
	ErrInactive = errors.New("plan mode is not active; enter begins it")
	ErrFile     = errors.New("plan_file cannot be used")
	ErrText     = errors.New("the text cannot be kept")
	ErrUnknown  = errors.New("no such plan")
)

// Config says how a Book is made.
type Config struct {
	Store *store.Store // required
	Dir   string       // the plans directory of a workspace, made when needed; empty keeps no files
	Place string       // the workspace
	// Self names this process, and Alive says whether a process of such a name
	// still runs: a session that plans and whose process has gone is taken over
	// by the next one.
	Self  string
	Alive func(self string) bool
	Now   func() time.Time // the clock; nil is time.Now
}

// Book is where plans stand. Several processes may have one over the same store.
// Its methods are safe for concurrent use; it has nothing to close. What a method
// that writes has returned without an error is on the disk.
type Book struct {
	cfg    Config
	tables *store.Tables
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

// New is the book in a store. Nothing is opened.
func New(cfg Config) (*Book, error) {
	if cfg.Store == nil {
		return nil, errors.New("plan: Config.Store is missing")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Alive == nil {
		cfg.Alive = func(self string) bool { return self == cfg.Self }
	}
	return &Book{cfg: cfg, tables: cfg.Store.Tables(schema)}, nil
}

// Enter notes that a session plans.
func (b *Book) Enter(ctx context.Context, o Owner, goal, file string) (m Mode, err error) {
	goal = oneLine(goal)
	if n := utf8.RuneCountInString(goal); n > MaxGoal {
		return m, fmt.Errorf("%w: the goal has %d characters, and %d are kept", ErrText, n, MaxGoal)
	}
	if file != "" {
		if file, err = fileName(file); err != nil {
			return m, err
		}
	}
	m = Mode{Goal: goal, File: file, Started: b.cfg.Now().Truncate(time.Millisecond)}
	err = b.tables.Write(ctx, func(tx *sql.Tx) error {
		if _, err := b.active(ctx, tx, o); !errors.Is(err, ErrInactive) {
			if err == nil {
				err = ErrActive
			}
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO plans_active VALUES (?, ?, ?, ?, ?, ?, ?)", o.Tenant, b.cfg.Place, o.Session, b.cfg.Self, goal, file, m.Started.UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM plans_active WHERE tenant = ?1 AND place = ?2 AND session IN (
			SELECT session FROM plans_active WHERE tenant = ?1 AND place = ?2 ORDER BY started DESC, session LIMIT -1 OFFSET ?3)`, o.Tenant, b.cfg.Place, maxActive)
		return err
	})
	return m, err
}

// Mode is how a session plans, or ErrInactive.
func (b *Book) Mode(ctx context.Context, o Owner) (m Mode, err error) {
	err = b.tables.Read(ctx, func(tx *sql.Tx) error {
		m, err = b.active(ctx, tx, o)
		return err
	})
	return m, err
}

func (b *Book) active(ctx context.Context, tx *sql.Tx, o Owner) (m Mode, err error) {
	var started int64
	err = tx.QueryRowContext(ctx, "SELECT goal, file, started FROM plans_active WHERE tenant = ? AND place = ? AND session = ?", o.Tenant, b.cfg.Place, o.Session).
		Scan(&m.Goal, &m.File, &started)
	if errors.Is(err, sql.ErrNoRows) {
		return m, ErrInactive
	}
	m.Started = time.UnixMilli(started)
	return m, err
}

// Adopt lets a new session take over the plan of a session whose process has gone:
// the conversation goes on, with what the agent knows of it. It returns ErrInactive
// if no such session was planning.
func (b *Book) Adopt(ctx context.Context, o Owner) (m Mode, err error) {
	err = b.tables.Write(ctx, func(tx *sql.Tx) error {
		session, err := b.orphan(ctx, tx, o)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE plans_active SET session = ?, self = ? WHERE tenant = ? AND place = ? AND session = ?", o.Session, b.cfg.Self, o.Tenant, b.cfg.Place, session); err != nil {
			return err
		}
		m, err = b.active(ctx, tx, o)
		return err
	})
	return m, err
}

// orphan is the session that began to plan last, within a day, of those whose
// process has gone.
func (b *Book) orphan(ctx context.Context, tx *sql.Tx, o Owner) (session string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT session, self FROM plans_active WHERE tenant = ? AND place = ? AND started > ? ORDER BY started DESC, session",
		o.Tenant, b.cfg.Place, b.cfg.Now().Add(-maxOrphan).UnixMilli())
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var one, self string
		if err := rows.Scan(&one, &self); err != nil {
			return "", err
		}
		if session == "" && self != b.cfg.Self && !b.cfg.Alive(self) {
			session = one
		}
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if session == "" {
		return "", ErrInactive
	}
	return session, nil
}

// Leave ends the plan mode of a session.
func (b *Book) Leave(ctx context.Context, o Owner) error {
	return b.tables.Write(ctx, func(tx *sql.Tx) error {
		if _, err := b.active(ctx, tx, o); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM plans_active WHERE tenant = ? AND place = ? AND session = ?", o.Tenant, b.cfg.Place, o.Session)
		return err
	})
}

// Save keeps a plan, in place of one of the same name. file may be empty: then
// the mode has said it, or the plan is named after the goal.
func (b *Book) Save(ctx context.Context, o Owner, m Mode, file, text string) (p Plan, err error) {
	if p, err = b.Draft(m, file, text); err != nil {
		return p, err
	}
	p.Saved = b.cfg.Now().Truncate(time.Millisecond)
	err = b.tables.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO plans_saved VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET goal = excluded.goal, text = excluded.text, saved = excluded.saved",
			o.Tenant, b.cfg.Place, p.File, p.Goal, p.Text, p.Saved.UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM plans_saved WHERE tenant = ?1 AND place = ?2 AND file IN (
			SELECT file FROM plans_saved WHERE tenant = ?1 AND place = ?2 ORDER BY saved DESC, file LIMIT -1 OFFSET ?3)`, o.Tenant, b.cfg.Place, maxSaved)
		return err
	})
	if err == nil && b.cfg.Dir != "" {
		err = writeFile(b.cfg.Dir, o.Tenant, p.File, p.Text)
	}
	return p, err
}

// Draft is the plan that Save would keep, or why it would not.
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

// Read is a saved plan of the tenant, or ErrUnknown.
func (b *Book) Read(ctx context.Context, tenant, file string) (p Plan, err error) {
	if file, err = fileName(file); err != nil {
		return p, err
	}
	var saved int64
	err = b.tables.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT file, goal, text, saved FROM plans_saved WHERE tenant = ? AND place = ? AND file = ?", tenant, b.cfg.Place, file).
			Scan(&p.File, &p.Goal, &p.Text, &saved)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return p, fmt.Errorf("%w: %s", ErrUnknown, file)
	}
	p.Saved = time.UnixMilli(saved)
	return p, err
}

// List are the saved plans of a tenant without their texts, the newest first.
func (b *Book) List(ctx context.Context, tenant string) (all []Plan, err error) {
	err = b.tables.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT file, goal, saved FROM plans_saved WHERE tenant = ? AND place = ? ORDER BY saved DESC, file", tenant, b.cfg.Place)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p Plan
			var saved int64
			if err := rows.Scan(&p.File, &p.Goal, &saved); err != nil {
				return err
			}
			p.Saved = time.UnixMilli(saved)
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, err
}

// Told reports whether the text of an error is for the agent.
func Told(err error) bool {
	for _, e := range []error{ErrActive, ErrInactive, ErrFile, ErrText, ErrUnknown} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}
