package job

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"
)

// forget removes the oldest jobs from the tables to make room, and returns them. Their
// outputs must be discarded once the transaction is on the disk.
func (b *Book) forget(ctx context.Context, tx *sql.Tx, tenant string) (gone []Job, err error) {
	now := b.kept.Now()
	gone, err = query(ctx, tx, `DELETE FROM jobs_all WHERE handle IN (
		SELECT handle FROM (
			SELECT handle, ended,
				row_number() OVER newest AS n,
				sum(min(size, ?1) + octet_length(answer)) OVER newest AS bytes
			FROM jobs_all WHERE tenant = ?2 AND place = ?3 AND ended <> 0
			WINDOW newest AS (ORDER BY ended DESC, id DESC)
		) WHERE n > ?4 OR bytes > ?5 OR ended < ?6
	) RETURNING `+columns, MaxOutput, tenant, b.kept.Place, MaxEnded, MaxBytes, now.Add(-MaxAge).UnixMilli())
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE jobs_last SET forgotten = forgotten + ?, forgotten_at = ? WHERE tenant = ? AND place = ?",
		len(gone), now.UnixMilli(), tenant, b.kept.Place)
	return gone, err
}

// discard removes the outputs of removed jobs, and logs the removal.
func (b *Book) discard(gone []Job) {
	if len(gone) == 0 {
		return
	}
	var bytes int64
	first, last := gone[0].Ended, time.Time{}
	for _, j := range gone {
		if j.Ended.Before(first) {
			first = j.Ended
		}
		if j.Ended.After(last) {
			last = j.Ended
		}
		if j.Output == "" || b.dir == "" {
			continue
		}
		bytes += min(j.Size, MaxOutput)
		if err := os.Remove(b.file(j.Output)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.kept.Log.Error("the output of a removed job cannot be deleted", "err", err)
		}
	}
	b.kept.Log.Info("the oldest of the jobs that have ended were removed", "tenant", gone[0].Owner.Tenant, "jobs", len(gone), "bytes", bytes, "ended", first, "to", last)
}
