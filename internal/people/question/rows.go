package question

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/internal/store"
)

// work is a transaction on questions.
type work = people.Work[Asked]

// kind describes how questions are stored.
var kind = people.Kind[Asked]{
	Name: "question", Schema: schema, Table: "questions_all", Scan: scan,
	Columns: "id, tenant, place, session, sheet, created, expires, state, answers, by_whom, via, note, answered",
	Status: func(a Asked) (id string, waits bool, ends time.Time) {
		if a.State == Waiting {
			ends = a.Expires
		}
		return a.ID, a.State == Waiting, ends
	},
	Shown:   shown,
	Waiting: string(Waiting), Live: "state = 'waiting'",
	Ends:        "state = 'timeout' WHERE state = 'waiting' AND expires <= ?1",
	MostWaiting: maxWaiting, MostKept: maxKept, MostListed: maxListed,
}

// shown returns an ID in the form for error texts.
func shown(id string) string { return clip(Clean(id, false), maxLabel) }

func scan(row *sql.Rows) (a Asked, err error) {
	var sheet, answers string
	var created, expires, answered int64
	if err := row.Scan(&a.ID, &a.Tenant, &a.Place, &a.Session, &sheet, &created, &expires, &a.State, &answers, &a.By, &a.Via, &a.Note, &answered); err != nil {
		return a, err
	}
	if err := errors.Join(json.Unmarshal([]byte(sheet), &a.Sheet), json.Unmarshal([]byte(answers), &a.Answers)); err != nil {
		return a, fmt.Errorf("read question %s: %w", a.ID, err)
	}
	a.Created, a.Expires, a.Answered = store.Time(created), store.Time(expires), store.Time(answered)
	return a, nil
}
