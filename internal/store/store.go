package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"belljar.dev/internal/pause"
)

// Bounds of a database.
const (
	maxBytes  = 256 << 20 // bytes of the file
	pageBytes = 4 << 10
	maxLog    = 8 << 20 // bytes to which the write-ahead log is cut after use
	maxConns  = 4       // connections of one process
	// busyWait is the time for which a transaction waits for transactions of other
	// processes. Waiting processes poll and do not form a queue, and a disk may be slow: if
	// many wait, the last one waits for seconds.
	busyWait = 15 * time.Second
	// claimAgain is the pause between two attempts to claim a file that other processes
	// make at the same time.
	claimAgain = 10 * time.Millisecond
)

// dirName is the directory of the database in a state directory, and fileName is the file
// of the database in dirName.
const (
	dirName  = "db"
	fileName = "belljar.db"
)

// Store is the database of one state directory. Its methods are safe for concurrent use.
// Other processes may use the same database. Close ends the Store.
type Store struct {
	dir string // path of the state directory; empty for a database in memory

	running sync.WaitGroup // counts the callers that use the database
	writer  chan struct{}  // contains a value while this process writes

	// mu is also held while the database is opened and closed, although that is I/O: a
	// caller that needs the store can do nothing else in that time.
	mu     sync.Mutex
	db     *sql.DB        // guarded by mu; nil before the first use
	ready  map[string]int // guarded by mu: version of each domain whose tables exist
	closed bool           // guarded by mu
}

// New returns the store of a state directory, which need not exist yet. It opens nothing.
// If dir is empty, the store is in memory, and ends with the program.
func New(dir string) *Store {
	return &Store{dir: dir, ready: make(map[string]int), writer: make(chan struct{}, 1)}
}

// Path returns the path of the database in a state directory.
func Path(dir string) string { return filepath.Join(dir, dirName, fileName) }

// Durable reports whether written values outlive the program.
func (s *Store) Durable() bool { return s.dir != "" }

// Made reports whether there is a database that may contain something: it has been
// opened, or its file exists. Made does not open it.
func (s *Store) Made() bool {
	s.mu.Lock()
	opened := s.db != nil
	s.mu.Unlock()
	if opened || s.dir == "" {
		return opened
	}
	_, err := os.Lstat(Path(s.dir))
	return err == nil
}

// Close closes the database. It waits for running transactions; later ones get
// ErrClosed. Close may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.running.Wait()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	if err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return nil
}

// open returns the database, with the tables of a schema in it. The caller calls
// running.Done when it no longer uses the database.
func (s *Store) open(ctx context.Context, schema Schema) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connected(ctx); err != nil {
		return nil, err
	}
	if s.ready[schema.Name] != len(schema.Steps) {
		if err := migrate(ctx, s.db, schema); err != nil {
			return nil, s.explain(fmt.Errorf("open the tables %q: %w", schema.Name, err))
		}
		s.ready[schema.Name] = len(schema.Steps)
	}
	s.running.Add(1)
	return s.db, nil
}

// connected opens the database if it is not open. The caller holds mu.
func (s *Store) connected(ctx context.Context) error {
	if s.closed {
		return ErrClosed
	}
	if s.db != nil {
		return nil
	}
	db, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.db = db
	return nil
}

// connect opens the database, and creates it if it does not exist.
func (s *Store) connect(ctx context.Context) (*sql.DB, error) {
	name := "file::memory:?"
	conns := 1 // in memory, each connection would have its own database
	if s.dir != "" {
		if err := prepare(s.dir); err != nil {
			return nil, err
		}
		at := url.URL{Scheme: "file", Path: Path(s.dir)} // URL escapes characters with a meaning in URIs
		name, conns = at.String()+"?", maxConns
	}
	base, err := sqlite.NewConnector(name + options())
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	db := sql.OpenDB(connector{base})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	if err := claimInTurn(ctx, db); err != nil {
		return nil, errors.Join(s.explain(fmt.Errorf("open state: %w", err)), db.Close())
	}
	return db, nil
}

// claimInTurn claims a database as soon as no other process is claiming it. It waits at
// most twice busyWait. A connection that puts a new file into WAL mode does not wait for
// other connections that do the same, whatever its busy_timeout (sqlite.org/wal.html,
// "Activating And Configuring WAL Mode").
func claimInTurn(ctx context.Context, db *sql.DB) error {
	wait, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	for {
		err := claim(ctx, db)
		if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		if pause.For(wait, claimAgain) != nil {
			return err
		}
	}
}

// options returns the settings of each connection. With FULL, each commit is on the disk
// before it is reported, also in WAL mode (sqlite.org/pragma.html, "synchronous"). A
// transaction that may write takes its lock at the start: if it took the lock after a read,
// SQLite would not let it wait while another process holds the lock.
func options() string {
	q := url.Values{"_txlock": {"immediate"}, "_defensive": {"1"}, "_dqs": {"0"}}
	q["_pragma"] = []string{
		fmt.Sprintf("busy_timeout(%d)", busyWait.Milliseconds()),
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"foreign_keys(1)",
		"trusted_schema(0)",
		fmt.Sprintf("max_page_count(%d)", maxBytes/pageBytes),
		fmt.Sprintf("journal_size_limit(%d)", maxLog),
	}
	return q.Encode()
}
