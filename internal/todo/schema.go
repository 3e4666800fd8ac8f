package todo

import "belljar.dev/internal/store"

// schema describes the tables of todos. Times are milliseconds since 1970. Each tenant has
// its own ids in a workspace; todos_next contains the next id of a todo and of a step.
var schema = store.Schema{Name: "todos", Steps: []string{`
	CREATE TABLE todos_next (
		tenant TEXT NOT NULL, place TEXT NOT NULL, todo INTEGER NOT NULL, step INTEGER NOT NULL,
		PRIMARY KEY (tenant, place)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE todos_all (
		tenant TEXT NOT NULL, place TEXT NOT NULL, id INTEGER NOT NULL,
		name TEXT NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL, changed INTEGER NOT NULL,
		PRIMARY KEY (tenant, place, id)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE todos_steps (
		tenant TEXT NOT NULL, place TEXT NOT NULL, todo INTEGER NOT NULL, id INTEGER NOT NULL,
		text TEXT NOT NULL, status TEXT NOT NULL,
		PRIMARY KEY (tenant, place, todo, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX todos_steps_by_id ON todos_steps (tenant, place, id);
	CREATE TABLE todos_current (
		tenant TEXT NOT NULL, place TEXT NOT NULL, session TEXT NOT NULL, -- '' is what new sessions begin with
		todo INTEGER NOT NULL, changed INTEGER NOT NULL,                  -- todo 0 is none
		PRIMARY KEY (tenant, place, session)
	) STRICT, WITHOUT ROWID;
`}}
