package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Copy writes a snapshot of the database into a new file, which only this user can read.
// Other processes may write in the meantime. If the database does not exist, the error
// wraps fs.ErrNotExist.
func (s *Store) Copy(ctx context.Context, file string) error {
	if s.dir == "" {
		return errors.New("copy state: it is in memory")
	}
	if _, err := os.Lstat(Path(s.dir)); err != nil {
		return fmt.Errorf("copy state: %w", err)
	}
	db, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer s.running.Done()
	// VACUUM INTO accepts an existing empty file. A file that it makes itself can be read
	// by other users.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("copy state: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("copy state: %w", err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return errors.Join(s.explain(fmt.Errorf("copy state: %w", err)), os.Remove(file))
	}
	return nil
}

// Check reads the whole database of a state directory. It returns an error if the database
// is damaged, belongs to another program or has a newer version. It changes no table.
func (s *Store) Check(ctx context.Context) error {
	db, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer s.running.Done()
	var fault string
	err = transact(ctx, db, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&fault)
	})
	if err != nil {
		return s.explain(fmt.Errorf("check state: %w", err))
	}
	if fault != "ok" {
		return fmt.Errorf("check state: the database is damaged: %s", fault)
	}
	return nil
}

// use is open without the tables of a schema.
func (s *Store) use(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connected(ctx); err != nil {
		return nil, err
	}
	s.running.Add(1)
	return s.db, nil
}
