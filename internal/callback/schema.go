package callback

import "belljar.dev/internal/store"

// schema describes the tables of callbacks. Times are milliseconds since 1970, or 0 if
// there is no such time. taken is when the agent was known to have a delivery; until then,
// further firings of the callback are counted in the same row. self is the process that is
// responsible for the row; no other process uses the row while that process runs.
var schema = store.Schema{Name: "callbacks", Steps: []string{`
	CREATE TABLE callbacks_armed (
		id      INTEGER PRIMARY KEY AUTOINCREMENT,
		tenant  TEXT NOT NULL,
		place   TEXT NOT NULL,
		slot    INTEGER NOT NULL,
		message TEXT NOT NULL,
		delay   INTEGER NOT NULL,
		left    INTEGER NOT NULL,
		due     INTEGER NOT NULL,
		session TEXT NOT NULL,
		UNIQUE (tenant, place, slot)
	) STRICT;
	CREATE INDEX callbacks_by_due ON callbacks_armed (place, due);
	CREATE TABLE callbacks_fired (
		id       INTEGER PRIMARY KEY AUTOINCREMENT,
		callback INTEGER NOT NULL,
		tenant   TEXT NOT NULL,
		place    TEXT NOT NULL,
		slot     INTEGER NOT NULL,
		message  TEXT NOT NULL,
		session  TEXT NOT NULL,
		fired    INTEGER NOT NULL,
		times    INTEGER NOT NULL,
		left     INTEGER NOT NULL,
		taken    INTEGER NOT NULL DEFAULT 0,
		posted   INTEGER NOT NULL DEFAULT 0
	) STRICT;
	CREATE INDEX callbacks_by_taken ON callbacks_fired (place, tenant, taken, id);
	CREATE UNIQUE INDEX callbacks_untaken ON callbacks_fired (callback) WHERE taken = 0;
`, `
	ALTER TABLE callbacks_armed ADD COLUMN self TEXT NOT NULL DEFAULT '';
	ALTER TABLE callbacks_fired ADD COLUMN self TEXT NOT NULL DEFAULT '';
`}}
