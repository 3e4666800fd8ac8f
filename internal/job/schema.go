package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/internal/store"
)

// schema is the tables of jobs. Times are milliseconds since 1970. ended is 0 while a job
// runs. released is 1 once the session of the job has ended.
var schema = store.Schema{Name: "jobs", Steps: []string{`
	CREATE TABLE jobs_all (
		tenant TEXT NOT NULL, place TEXT NOT NULL, id INTEGER NOT NULL,
		handle TEXT NOT NULL UNIQUE, session TEXT NOT NULL, self TEXT NOT NULL, released INTEGER NOT NULL DEFAULT 0,
		tool TEXT NOT NULL, command TEXT NOT NULL, about TEXT NOT NULL, output TEXT NOT NULL,
		started INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL, end_json TEXT NOT NULL DEFAULT '{}',
		size INTEGER NOT NULL DEFAULT 0, cursor INTEGER NOT NULL DEFAULT 0,
		answered TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT '',
		PRIMARY KEY (tenant, place, id)
	) STRICT;
	CREATE TABLE jobs_last (
		tenant TEXT NOT NULL, place TEXT NOT NULL,
		id INTEGER NOT NULL, forgotten INTEGER NOT NULL DEFAULT 0, forgotten_at INTEGER NOT NULL DEFAULT 0,
		PRIMARY KEY (tenant, place)
	) STRICT, WITHOUT ROWID;
`}}

const columns = "id, handle, tenant, session, tool, command, about, output, started, ended, status, end_json, size, cursor, answered"

// query returns the jobs that the query text selects. text must select columns.
func query(ctx context.Context, tx *sql.Tx, text string, args ...any) ([]Job, error) {
	return store.Rows(ctx, tx, func(row *sql.Rows) (j Job, err error) {
		var started, ended int64
		var end []byte
		err = row.Scan(&j.ID, &j.Handle, &j.Owner.Tenant, &j.Owner.Session, &j.Tool, &j.Command, &j.Description, &j.Output,
			&started, &ended, &j.Status, &end, &j.Size, &j.Cursor, &j.Answered)
		if err != nil {
			return j, err
		}
		if err := json.Unmarshal(end, &j.End); err != nil {
			return j, fmt.Errorf("job %d: its end: %w", j.ID, err)
		}
		j.Started, j.Ended = time.UnixMilli(started), store.Time(ended)
		return j, nil
	}, text, args...)
}
