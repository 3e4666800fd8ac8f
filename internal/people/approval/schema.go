package approval

import "belljar.dev/internal/store"

// schema is the table of approvals. Times are milliseconds since 1970; 0 means no time.
var schema = store.Schema{Name: "approvals", Steps: []string{`
	CREATE TABLE approvals_all (
		id         TEXT PRIMARY KEY,
		tenant     TEXT NOT NULL,
		principal  TEXT NOT NULL,
		session    TEXT NOT NULL,
		place      TEXT NOT NULL,
		tool       TEXT NOT NULL,
		call       TEXT NOT NULL,
		digest     TEXT NOT NULL,
		canon      TEXT NOT NULL,
		profile    TEXT NOT NULL,
		rule       TEXT NOT NULL,
		reason     TEXT NOT NULL,
		policy     TEXT NOT NULL,
		shown      TEXT NOT NULL,
		created    INTEGER NOT NULL,
		expires    INTEGER NOT NULL,
		timeout    INTEGER NOT NULL,
		may_session INTEGER NOT NULL,
		may_for    INTEGER NOT NULL,
		state      TEXT NOT NULL,
		by_whom    TEXT NOT NULL DEFAULT '',
		via        TEXT NOT NULL DEFAULT '',
		note       TEXT NOT NULL DEFAULT '',
		answered   INTEGER NOT NULL DEFAULT 0,
		scope      TEXT NOT NULL DEFAULT '',
		until      INTEGER NOT NULL DEFAULT 0,
		uses       INTEGER NOT NULL DEFAULT 0
	) STRICT;
	CREATE INDEX approvals_by_digest ON approvals_all (digest, state);
	CREATE INDEX approvals_by_canon ON approvals_all (canon, state);
	CREATE INDEX approvals_by_state ON approvals_all (state, tenant, created);
`, "ALTER TABLE approvals_all ADD COLUMN commands TEXT NOT NULL DEFAULT ''"}}
