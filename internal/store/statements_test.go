package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"
)

// watched is a connector that counts the statements of its connections.
type watched struct {
	driver.Connector
	prepared atomic.Int64 // number of prepared statements so far
	open     atomic.Int64
}

func (w *watched) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	own, ok := c.(connection)
	if !ok {
		return nil, fmt.Errorf("a connection of the type %T", c)
	}
	return &watchedConn{own, w}, nil
}

type watchedConn struct {
	connection
	by *watched
}

func (c *watchedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	s, err := c.connection.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	own, ok := s.(prepared)
	if !ok {
		return nil, fmt.Errorf("a statement of the type %T", s)
	}
	c.by.prepared.Add(1)
	c.by.open.Add(1)
	return &watchedStmt{own, c.by}, nil
}

type watchedStmt struct {
	prepared
	by *watched
}

func (s *watchedStmt) Close() error {
	s.by.open.Add(-1)
	return s.prepared.Close()
}

// watch opens a database with a table of a hundred numbers, and conns connections.
func watch(t *testing.T, conns int) (*sql.DB, *watched) {
	t.Helper()
	base, err := sqlite.NewConnector("file:" + filepath.Join(t.TempDir(), "db") + "?" + options())
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Connector: base}
	db := sql.OpenDB(connector{w})
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	for _, text := range []string{"CREATE TABLE t (n INTEGER PRIMARY KEY)", "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n+1 FROM c WHERE n < 100) INSERT INTO t SELECT n FROM c"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return db, w
}

func numbers(t *testing.T, db interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}, text string, args ...any,
) (all []int) {
	t.Helper()
	found, err := db.QueryContext(t.Context(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var n int
		if err := found.Scan(&n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// A statement that runs again is not prepared again, and nothing of the earlier run
// remains: no row and no argument.
func TestStatementsAreKept(t *testing.T) {
	db, w := watch(t, 1)
	before := w.prepared.Load()
	for i := range 50 {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: i%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		var first int // the other rows are not read
		if err := tx.QueryRowContext(t.Context(), "SELECT n FROM t WHERE n > ? ORDER BY n", i).Scan(&first); err != nil || first != i+1 {
			t.Errorf("the first number above %d is %d, %v", i, first, err)
		}
		if i%2 != 0 {
			if _, err := tx.ExecContext(t.Context(), "UPDATE t SET n = n WHERE n < ?", i); err != nil {
				t.Error(err)
			}
		}
		if got := numbers(t, tx, "SELECT n FROM t WHERE n <= ? ORDER BY n DESC", i); len(got) != i || i > 0 && got[0] != i {
			t.Errorf("the numbers up to %d are %v", i, got)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
	if n := w.prepared.Load() - before; n != 3 {
		t.Errorf("three texts were prepared %d times", n)
	}
}

// A statement whose rows are being read is not used for another run.
func TestStatementInItself(t *testing.T) {
	db, w := watch(t, 1)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	const text = "SELECT n FROM t WHERE n > ? ORDER BY n LIMIT 3"
	for range 2 {
		outer, err := tx.QueryContext(t.Context(), text, 10)
		if err != nil {
			t.Fatal(err)
		}
		var all []int
		for outer.Next() {
			var n int
			if err := outer.Scan(&n); err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
			if inner := numbers(t, tx, text, 50+n); !slices.Equal(inner, []int{51 + n, 52 + n, 53 + n}) {
				t.Errorf("beside %d: %v", n, inner)
			}
		}
		outer.Close()
		if !slices.Equal(all, []int{11, 12, 13}) {
			t.Errorf("got %v", all)
		}
	}
	if open := w.open.Load(); open > mostStatements {
		t.Errorf("%d statements are open", open)
	}
}

// A connection keeps a bounded number of statements, the latest, and no very long one.
func TestStatementsAreBounded(t *testing.T) {
	db, w := watch(t, 1)
	text := func(i int) string { return fmt.Sprintf("SELECT n + %d FROM t WHERE n = 1", i) }
	for i := range 10 * mostStatements {
		if got := numbers(t, db, text(i)); !slices.Equal(got, []int{i + 1}) {
			t.Errorf("statement %d: %v", i, got)
		}
		if open := w.open.Load(); open > mostStatements {
			t.Fatalf("%d statements are open after %d", open, i+1)
		}
	}
	before := w.prepared.Load()
	for i := range mostStatements {
		numbers(t, db, text(9*mostStatements+i))
	}
	if n := w.prepared.Load() - before; n != 0 {
		t.Errorf("%d of the latest statements were prepared again", n)
	}
	before = w.prepared.Load()
	for _, once := range []string{"SELECT n FROM t WHERE n = 1 --" + strings.Repeat("x", longestStatement), " pragma cache_size"} {
		for range 2 {
			numbers(t, db, once)
		}
	}
	if n := w.prepared.Load() - before; n != 4 {
		t.Errorf("a long statement and a pragma were prepared %d times, want each of 4", n)
	}
	if err := db.Close(); err != nil || w.open.Load() != 0 {
		t.Errorf("after the end %d statements are open, %v", w.open.Load(), err)
	}
}

// A statement that fails or is interrupted does not affect its next run.
func TestStatementsThatFail(t *testing.T) {
	db, w := watch(t, 1)
	open := w.open.Load()
	for range 3 {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (?)", 7); err == nil {
			t.Error("a number is there twice")
		}
		if _, err := db.ExecContext(t.Context(), "INSERT INTO nowhere VALUES (?)", 7); err == nil {
			t.Error("a row went into a table that does not exist")
		}
	}
	if now := w.open.Load(); now != open {
		t.Errorf("%d statements are open behind those that failed, %d before", now, open)
	}
	const forever = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n+1 FROM c) SELECT n FROM c WHERE n > ? LIMIT 1"
	if got := numbers(t, db, forever, 5); !slices.Equal(got, []int{6}) {
		t.Errorf("got %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var cutting sync.WaitGroup
	cutting.Go(cancel)
	var n int64
	if err := db.QueryRowContext(ctx, forever, int64(1)<<60).Scan(&n); err == nil {
		t.Errorf("a statement that was cut off has found %d", n)
	}
	cutting.Wait()
	if got := numbers(t, db, forever, 8); !slices.Equal(got, []int{9}) {
		t.Errorf("after one that was cut off: %v", got)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (?)", 101); err != nil {
		t.Errorf("after one that failed: %v", err)
	}
}

// A statement stays correct if another connection changes the tables.
func TestStatementsOfChangedTables(t *testing.T) {
	db, _ := watch(t, 2)
	one, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	columns := func() int {
		all, err := one.QueryContext(t.Context(), "SELECT * FROM t LIMIT 1")
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		names, err := all.Columns()
		if err != nil || !all.Next() {
			t.Fatalf("no row: %v, %v", err, all.Err())
		}
		return len(names)
	}
	if n := columns(); n != 1 {
		t.Errorf("%d columns, want 1", n)
	}
	if _, err := other.ExecContext(t.Context(), "ALTER TABLE t ADD COLUMN m TEXT"); err != nil {
		t.Fatal(err)
	}
	if n := columns(); n != 2 {
		t.Errorf("%d columns after another one was added, want 2", n)
	}
}

// BenchmarkRead measures a transaction that reads a few rows, like the one that most calls
// make.
func BenchmarkRead(b *testing.B) {
	s := New(filepath.Join(b.TempDir(), "st"))
	defer s.Close()
	tables := s.Tables(notes)
	for range 10 {
		if err := put(b.Context(), tables, "a"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		err := tables.Read(b.Context(), func(tx *sql.Tx) error {
			_, err := Rows(b.Context(), tx, Text, "SELECT text FROM notes_all WHERE n > ? ORDER BY n LIMIT 3", 4)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
