package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/internal/store"
)

// schema is the tables of jobs. Times are milliseconds since 1970, an end of 0 is
// a job that runs. A job is its session's until that is over (released).
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

// query is the jobs that a query names by columns.
func query(ctx context.Context, tx *sql.Tx, text string, args ...any) (all []Job, err error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var j Job
		var started, ended int64
		var end []byte
		err := rows.Scan(&j.ID, &j.Handle, &j.Owner.Tenant, &j.Owner.Session, &j.Tool, &j.Command, &j.Description, &j.Output,
			&started, &ended, &j.Status, &end, &j.Size, &j.Cursor, &j.Answered)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(end, &j.End); err != nil {
			return nil, fmt.Errorf("job %d: its end: %w", j.ID, err)
		}
		j.Started = time.UnixMilli(started)
		if ended != 0 {
			j.Ended = time.UnixMilli(ended)
		}
		all = append(all, j)
	}
	return all, rows.Err()
}
