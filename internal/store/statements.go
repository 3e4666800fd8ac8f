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
	longestStatement = 4 << 10 // bytes of its text
)

// connector makes connections that keep the statements they have prepared. To prepare a
// statement takes as long as to run it, and the rooms have few, which they run again and
// again.
type connector struct{ driver.Connector }

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	base, ok := opened.(connection)
	if !ok { // it is one of another version of the driver
		opened.Close()
		return nil, fmt.Errorf("a connection of the type %T cannot keep statements", opened)
	}
	return &conn{connection: base}, nil
}

// connection is what database/sql uses of the driver's connections.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn is a connection. database/sql calls it, and the rows that it returns, from one
// goroutine at a time.
type conn struct {
	connection

	idle   []statement // the one that ran last is the last
	closed bool
}

// statement is a prepared statement. A change of the tables does not make it wrong:
// sqlite prepares it anew (sqlite.org/c3ref/prepare.html, sqlite3_prepare_v2).
type statement struct {
	text string
	prepared
}

// prepared is what the driver's statements are.
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

// QueryContext runs a statement, which is released when its rows are closed: the same text
// may be run again before that, and gets a statement of its own.
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

// take returns the statement of a text, which nobody else has until it is released.
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

// release keeps a statement, unless it has failed: then it may not have been reset.
func (c *conn) release(s statement, failed error) {
	if failed != nil || c.closed || !lasting(s.text) {
		_ = s.Close() // its error is that of the last run
		return
	}
	c.idle = append(c.idle, s)
	if len(c.idle) > mostStatements {
		_ = c.idle[0].Close()
		c.idle = slices.Delete(c.idle, 0, 1)
	}
}

// lasting reports whether the statement of a text may be kept. Some pragmas do their work
// while they are prepared (sqlite.org/pragma.html), and would do it once.
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

// rows are what a statement finds.
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
