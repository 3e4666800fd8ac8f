package question

import "belljar.dev/internal/store"

// schema is the table of questions. Times are milliseconds since 1970; 0 means no time.
var schema = store.Schema{Name: "questions", Steps: []string{`
	CREATE TABLE questions_all (
		id       TEXT PRIMARY KEY,
		tenant   TEXT NOT NULL,
		place    TEXT NOT NULL,
		session  TEXT NOT NULL,
		digest   TEXT NOT NULL,
		sheet    TEXT NOT NULL,
		created  INTEGER NOT NULL,
		expires  INTEGER NOT NULL,
		state    TEXT NOT NULL,
		answers  TEXT NOT NULL DEFAULT '{}',
		by_whom  TEXT NOT NULL DEFAULT '',
		via      TEXT NOT NULL DEFAULT '',
		note     TEXT NOT NULL DEFAULT '',
		answered INTEGER NOT NULL DEFAULT 0,
		told     INTEGER NOT NULL DEFAULT 0
	) STRICT;
	CREATE INDEX questions_by_digest ON questions_all (digest, told);
	CREATE INDEX questions_by_state ON questions_all (state, tenant, created);
`}}
