package job

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/store"
)

// Config is the configuration of a Book.
type Config struct {
	store.Config
	Dir string // directory of the outputs, made when needed; if Dir is "", no outputs are kept
	// Ended receives each job with a command that has ended, for whatever reason, once the
	// end is on the disk. It must not block.
	Ended func(Job)
}

// Book keeps the records of jobs. Several processes may have a Book over the same store. A
// job of a process that is gone is lost. The methods of a Book are safe for concurrent use;
// a Book need not be closed. A change is on the disk when the method that writes it returns
// without an error.
//
// A session sees its own jobs and, in its workspace, the jobs of its tenant whose sessions
// have ended. For a session, no other job exists.
type Book struct {
	kept  store.Book
	dir   string
	ended func(Job)
}

// New returns the Book in a store. It does not open the database.
func New(cfg Config) *Book {
	if cfg.Ended == nil {
		cfg.Ended = func(Job) {}
	}
	return &Book{store.NewBook(cfg.Config, schema), cfg.Dir, cfg.Ended}
}

// seen is the SQL condition on the jobs that a session sees. seenBy returns its arguments.
const seen = "tenant = ? AND place = ? AND (session = ? OR released = 1)"

func (b *Book) seenBy(o store.Owner) []any { return []any{o.Tenant, b.kept.Place, o.Session} }

// Open records a job that runs. It takes Tool, Command, Description, Output and Started
// from j; a zero Started means now. The error wraps ErrMany if too many jobs run.
func (b *Book) Open(ctx context.Context, o store.Owner, j Job) (Job, error) {
	if err := b.settle(ctx); err != nil {
		return Job{}, err
	}
	j.Owner, j.Status = o, Running
	j.Command, j.Description = printable.Head(j.Command, maxCommand), printable.Head(j.Description, maxAbout)
	if j.Started.IsZero() {
		j.Started = b.kept.Now()
	}
	var gone []Job
	err := b.kept.Write(ctx, func(tx *sql.Tx) error {
		var running int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM jobs_all WHERE tenant = ? AND place = ? AND ended = 0", o.Tenant, b.kept.Place).Scan(&running)
		switch {
		case err != nil:
			return err
		case running >= maxRunning:
			return fmt.Errorf("%w: %d", ErrMany, running)
		}
		err = tx.QueryRowContext(ctx, `INSERT INTO jobs_last (tenant, place, id) VALUES (?, ?, 1)
			ON CONFLICT DO UPDATE SET id = id + 1 RETURNING id`, o.Tenant, b.kept.Place).Scan(&j.ID)
		if err != nil {
			return err
		}
		j.Handle = strconv.FormatInt(j.ID, 10) + "-" + strings.ToLower(rand.Text())
		_, err = tx.ExecContext(ctx, `INSERT INTO jobs_all (tenant, place, id, handle, session, self, tool, command, about, output, started, status)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			o.Tenant, b.kept.Place, j.ID, j.Handle, o.Session, b.kept.Self, j.Tool, j.Command, j.Description, j.Output, j.Started.UnixMilli(), Running)
		if err == nil {
			gone, err = b.forget(ctx, tx, o.Tenant)
		}
		return err
	})
	if err != nil {
		return Job{}, err
	}
	b.discard(gone)
	return j, nil
}

// Run records that a job, which was opened without a command, now runs one. It takes
// Command, Description and Output from j.
func (b *Book) Run(ctx context.Context, j Job) (Job, error) {
	j.Command, j.Description = printable.Head(j.Command, maxCommand), printable.Head(j.Description, maxAbout)
	return j, b.change(ctx, j, "UPDATE jobs_all SET command = ?, about = ?, output = ?", j.Command, j.Description, j.Output)
}

// End records that the command of a job has ended, and how. If the job has already ended,
// the error wraps ErrUnknown.
func (b *Book) End(ctx context.Context, j Job, s Status, e End, size int64) error {
	j.Status, j.End, j.Size, j.Ended = s, e, size, b.kept.Now()
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("job %d: its end: %w", j.ID, err)
	}
	err = b.change(ctx, j, "UPDATE jobs_all SET status = ?, end_json = ?, size = ?, ended = ?", string(s), string(text), size, j.Ended.UnixMilli())
	if err == nil {
		b.ended(j)
	}
	return err
}

// Answer records the answer of a job's call, and a word for its outcome. A job without a
// command ends with the answer. If the answer is larger than MaxAnswer, the error wraps
// ErrLarge.
func (b *Book) Answer(ctx context.Context, handle, word string, a Answer) error {
	if len(a) > MaxAnswer {
		return fmt.Errorf("%w: %d bytes, and %d are kept", ErrLarge, len(a), MaxAnswer)
	}
	return b.kept.Write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE jobs_all SET answered = ?1, answer = ?2,
			status = iif(command = '' AND ended = 0, ?3, status), ended = iif(command = '' AND ended = 0, ?4, ended)
			WHERE handle = ?5 AND answered = ''`, word, string(a), Over, b.kept.Now().UnixMilli(), handle)
		return changed(r, err)
	})
}

// Move records how far the output of a job was read.
func (b *Book) Move(ctx context.Context, j Job, cursor int64) error {
	return b.setCursor(ctx, j, "?", cursor)
}

// Back records that the output of a job was not read beyond an offset.
func (b *Book) Back(ctx context.Context, j Job, cursor int64) error {
	return b.setCursor(ctx, j, "min(cursor, ?)", cursor)
}

func (b *Book) setCursor(ctx context.Context, j Job, to string, cursor int64) error {
	return b.kept.Write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "UPDATE jobs_all SET cursor = "+to+" WHERE handle = ?", cursor, j.Handle)
		return changed(r, err)
	})
}

// change runs an UPDATE of a job that runs.
func (b *Book) change(ctx context.Context, j Job, update string, args ...any) error {
	return b.kept.Write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, update+" WHERE handle = ? AND ended = 0", append(args, j.Handle)...)
		return changed(r, err)
	})
}

// changed returns ErrUnknown if nothing was changed.
func changed(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrUnknown)
	}
	return nil
}

// List returns the jobs with a command that a session sees, oldest first, and the number of
// all removed jobs of its tenant in its workspace. It does not create the database.
func (b *Book) List(ctx context.Context, o store.Owner) (all []Job, f Forgotten, err error) {
	err = b.look(ctx, func(tx *sql.Tx) error {
		all, err = query(ctx, tx, "SELECT "+columns+" FROM jobs_all WHERE "+seen+" AND command <> '' ORDER BY id", b.seenBy(o)...)
		if err != nil {
			return err
		}
		var at int64
		err = tx.QueryRowContext(ctx, "SELECT forgotten, forgotten_at FROM jobs_last WHERE tenant = ? AND place = ?", o.Tenant, b.kept.Place).Scan(&f.Jobs, &at)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		f.Last = time.UnixMilli(at)
		return err
	})
	return all, f, err
}

// Find returns the job with a command that a session knows by its number. The error wraps
// ErrUnknown if there is no such job.
func (b *Book) Find(ctx context.Context, o store.Owner, id int64) (Job, error) {
	return b.find(ctx, "id = ? AND command <> '' AND "+seen, append([]any{id}, b.seenBy(o)...))
}

// ByHandle returns the job that a client knows by its handle. The error wraps ErrUnknown if
// there is no such job.
func (b *Book) ByHandle(ctx context.Context, o store.Owner, handle string) (Job, error) {
	return b.find(ctx, "handle = ? AND "+seen, append([]any{handle}, b.seenBy(o)...))
}

// ByOutput returns the job whose output has the ID. The error wraps ErrUnknown if there is
// no such job.
func (b *Book) ByOutput(ctx context.Context, o store.Owner, id string) (Job, error) {
	if id == "" {
		return Job{}, ErrUnknown
	}
	return b.find(ctx, "output = ? AND "+seen, append([]any{id}, b.seenBy(o)...))
}

func (b *Book) find(ctx context.Context, where string, args []any) (j Job, err error) {
	err = b.look(ctx, func(tx *sql.Tx) error {
		all, err := query(ctx, tx, "SELECT "+columns+" FROM jobs_all WHERE "+where, args...)
		if err == nil && len(all) == 1 {
			j = all[0]
		}
		return err
	})
	if err == nil && j.ID == 0 {
		err = ErrUnknown
	}
	return j, err
}

// AnswerOf returns the answer of a job's call; nil if it was not recorded.
func (b *Book) AnswerOf(ctx context.Context, j Job) (a Answer, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT answer FROM jobs_all WHERE handle = ?", j.Handle).Scan((*[]byte)(&a))
	})
	if len(a) == 0 {
		a = nil
	}
	return a, err
}

// look runs a read of the database if it exists, after it has recorded the jobs that were
// lost.
func (b *Book) look(ctx context.Context, f func(tx *sql.Tx) error) error {
	if !b.kept.Store.Made() {
		return nil
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	return b.kept.Read(ctx, f)
}
