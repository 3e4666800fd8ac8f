package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The errors of a store. Errors of Read and Write wrap them, and contain the path of the
// file and the fix.
var (
	ErrClosed   = errors.New("the state is closed")
	ErrBusy     = errors.New("another process keeps the state locked")
	ErrReadOnly = errors.New("the state cannot be written")
	ErrFull     = errors.New("there is no room for more state")
	ErrCorrupt  = errors.New("the state is damaged")
	ErrNewer    = errors.New("the state was written by a newer belljar")
)

// errForeign is the error for a database that another program has made at our path.
var errForeign = fmt.Errorf("the file is another program's database: %w", ErrCorrupt)

// remedy contains the sentinel for an error of the database, and advice for the user.
type remedy struct {
	sentinel error
	advice   string
}

// remedies contains the remedies by the primary code of an error (sqlite.org/rescode.html).
var remedies = map[int]remedy{
	sqlite3.SQLITE_BUSY:     {ErrBusy, "`belljar ps` shows the servers that run; try again"},
	sqlite3.SQLITE_LOCKED:   {ErrBusy, "try again"},
	sqlite3.SQLITE_READONLY: {ErrReadOnly, "give its directory and files back to this user, or name another directory with --state"},
	sqlite3.SQLITE_PERM:     {ErrReadOnly, "give its directory and files back to this user, or name another directory with --state"},
	sqlite3.SQLITE_CANTOPEN: {ErrReadOnly, "give its directory and files back to this user, or name another directory with --state"},
	sqlite3.SQLITE_FULL:     {ErrFull, fmt.Sprintf("make room on its disk; the state itself may have %d MiB", maxBytes>>20)},
	sqlite3.SQLITE_CORRUPT:  {ErrCorrupt, "move its directory away: belljar begins with a new state, and asks again what waited for an answer"},
	sqlite3.SQLITE_NOTADB:   {ErrCorrupt, "move its directory away: belljar begins with a new state, and asks again what waited for an answer"},
}

// explain adds the sentinel and the advice to an error of the database. It returns other
// errors unchanged.
func (s *Store) explain(err error) error {
	where := "in memory"
	if s.dir != "" {
		where = Path(s.dir)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("state %s: %w; use that one, or name another directory with --state", where, err)
	case errors.Is(err, errForeign):
		return fmt.Errorf("state %s: %w; %s", where, err, remedies[sqlite3.SQLITE_CORRUPT].advice)
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	r, known := remedies[e.Code()&0xff]
	if !known {
		return fmt.Errorf("state %s: %w", where, err)
	}
	return fmt.Errorf("state %s: %w (%w); %s", where, r.sentinel, err, r.advice)
}
