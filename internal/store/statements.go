package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
)

// Bounds of the statements that a connection keeps.
const (
	mostStatements   = 32
	longestStatement = 4 << 10 // most bytes of the text of a kept statement
)

// connector makes connections that keep the statements they have prepared. To prepare a
// statement takes as long as to run it, and the rooms use few statements again and again.
type connector struct{ driver.Connector }

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	base, ok := opened.(connection)
	if !ok { // the driver has another version
		opened.Close()
		return nil, fmt.Errorf("a connection of the type %T cannot keep statements", opened)
	}
	return &conn{connection: base}, nil
}

// connection contains what database/sql uses of the driver's connections.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn is a connection. database/sql uses it, and the rows that it returns, from one
// goroutine at a time.
type conn struct {
	connection

	idle   []statement // statements that do not run; the latest is the last
	closed bool
}

// statement is a prepared statement. It stays valid when the tables change: sqlite prepares
// it again (sqlite.org/c3ref/prepare.html, sqlite3_prepare_v2).
type statement struct {
	text string
	prepared
}

// prepared contains what database/sql uses of the driver's statements.
type prepared interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// ExecContext runs a statement without rows.
func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, text)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(ctx, args)
	c.release(s, err)
	return result, err
}

// QueryContext runs a statement. The statement is released when the rows are closed. Until
// then, another run of the same text gets its own statement.
func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, text)
	if err != nil {
		return nil, err
	}
	found, err := s.QueryContext(ctx, args)
	if err != nil {
		c.release(s, err)
		return nil, err
	}
	return &rows{found, c, s}, nil
}

// take returns a statement for a text. Nothing else uses it until it is released.
func (c *conn) take(ctx context.Context, text string) (statement, error) {
	for i, s := range slices.Backward(c.idle) {
		if s.text == text {
			c.idle = slices.Delete(c.idle, i, i+1)
			return s, nil
		}
	}
	made, err := c.PrepareContext(ctx, text)
	if err != nil {
		return statement{}, err
	}
	p, ok := made.(prepared)
	if !ok {
		made.Close()
		return statement{}, fmt.Errorf("a statement of the type %T cannot be kept", made)
	}
	return statement{text, p}, nil
}

// release keeps a statement for later runs. It closes a statement that has failed, because
// such a statement may not have been reset.
func (c *conn) release(s statement, failed error) {
	if failed != nil || c.closed || !lasting(s.text) {
		_ = s.Close() // its error is the one of the last run
		return
	}
	c.idle = append(c.idle, s)
	if len(c.idle) > mostStatements {
		_ = c.idle[0].Close()
		c.idle = slices.Delete(c.idle, 0, 1)
	}
}

// lasting reports whether the statement of a text may be kept. Some pragmas do their work
// while they are prepared (sqlite.org/pragma.html), and a kept one would do it only once.
func lasting(text string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return len(text) <= longestStatement && !strings.EqualFold(word, "PRAGMA")
}

// Close closes the statements, and then the connection: a database with open statements
// stays open (sqlite.org/c3ref/close.html).
func (c *conn) Close() error {
	c.closed = true
	for _, s := range c.idle {
		_ = s.Close()
	}
	c.idle = nil
	return c.connection.Close()
}

// rows are the rows of a statement's result.
type rows struct {
	driver.Rows
	conn *conn
	of   statement
}

// Close releases the statement. database/sql calls it once.
func (r *rows) Close() error {
	err := r.Rows.Close()
	r.conn.release(r.of, err)
	return err
}
