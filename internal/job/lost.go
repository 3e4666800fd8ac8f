package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"belljar.dev/internal/store"
)

// Settle records the jobs of processes that are gone as lost. Open and the methods that
// list or find jobs do this first. A server calls Settle at its start. Settle does not
// create the database.
func (b *Book) Settle(ctx context.Context) error {
	return b.look(ctx, func(*sql.Tx) error { return nil })
}

// settle is Settle for a database that exists. It writes only if a job was lost.
func (b *Book) settle(ctx context.Context) error {
	var gone []string
	err := b.kept.Read(ctx, func(tx *sql.Tx) error {
		var err error
		gone, err = b.kept.Gone(ctx, tx, "SELECT DISTINCT self FROM jobs_all WHERE place = ? AND released = 0 AND self <> ?", b.kept.Place, b.kept.Self)
		return err
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	for _, self := range gone {
		// A warning, because a person may have to clean up after the interrupted command.
		if err := b.lose(ctx, slog.LevelWarn, "self = ?", self); err != nil {
			return err
		}
	}
	return b.sweep(ctx)
}

// Release gives the jobs of a session of this process to its tenant: the tenant's next
// session sees them. Jobs that still run are recorded as lost. Release does not change jobs
// of the session in another process: this process may have handed its clients over to a
// successor.
func (b *Book) Release(ctx context.Context, o store.Owner) error {
	if !b.kept.Store.Made() {
		return nil
	}
	return b.lose(ctx, slog.LevelInfo, "self = ? AND session = ?", b.kept.Self, o.Session)
}

// lose releases the jobs for which the SQL condition where holds, and records those that still
// run as lost.
func (b *Book) lose(ctx context.Context, level slog.Level, where string, args ...any) error {
	var lost []Job
	err := b.kept.Write(ctx, func(tx *sql.Tx) error {
		var err error
		lost, err = query(ctx, tx, "SELECT "+columns+" FROM jobs_all WHERE place = ? AND released = 0 AND ended = 0 AND "+where, append([]any{b.kept.Place}, args...)...)
		if err != nil {
			return err
		}
		for i := range lost {
			j := &lost[i]
			j.Status = Lost
			if j.Size, j.Ended = b.spooled(j.Output); j.Ended.IsZero() {
				j.Ended = b.kept.Now()
			}
			j.End.Wall = max(0, j.Ended.Sub(j.Started))
			text, err := json.Marshal(j.End)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE jobs_all SET status = ?, ended = ?, size = ?, end_json = ? WHERE handle = ?",
				Lost, j.Ended.UnixMilli(), j.Size, string(text), j.Handle); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE jobs_all SET released = 1 WHERE place = ? AND released = 0 AND "+where, append([]any{b.kept.Place}, args...)...)
		return err
	})
	if err != nil {
		return err
	}
	for _, j := range lost {
		if j.Command != "" { // a call that ran no command is not a background task
			b.kept.Log.Log(ctx, level, "a background task was lost: what ran it has ended", "task", j.ID, "tenant", j.Owner.Tenant, "started", j.Started, "last_seen", j.Ended)
			b.ended(j)
		}
	}
	return nil
}

// spooled returns the size of an output and the time of its last write. Both are zero if
// they are not known.
func (b *Book) spooled(output string) (size int64, last time.Time) {
	if output == "" || b.dir == "" {
		return 0, last
	}
	o, err := b.open(output, os.O_RDONLY)
	if err != nil {
		return 0, last
	}
	defer o.Close()
	if info, err := o.f.Stat(); err == nil {
		last = info.ModTime()
	}
	return o.Size(), last
}

// sweep removes outputs without a record. A process leaves such an output if it is killed
// after it has removed the record of a job and before it has removed the output.
func (b *Book) sweep(ctx context.Context) error {
	if b.dir == "" {
		return nil
	}
	dir, err := os.Open(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1) // all names: their number is bounded, because the number of jobs is
	if err != nil {
		return err
	}
	var known []string
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		known, err = store.Rows(ctx, tx, store.Text, "SELECT output FROM jobs_all WHERE output <> ''")
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(known)
	for _, name := range names {
		// A job's record is written before its output, so an output without a record is left over.
		if _, found := slices.BinarySearch(known, name); !found && outputName().MatchString(name) {
			if err := os.Remove(b.file(name)); err == nil {
				b.kept.Log.Info("the output of a removed job was deleted", "output", name)
			}
		}
	}
	return nil
}
