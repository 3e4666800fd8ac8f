package durable

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

// Environment variables of a writer. internal/vmtest uses the same names.
const (
	dirEnv  = "BELLJAR_TEST_KEEP"      // directory in which the writer keeps its data; without it the tests run
	roomEnv = "BELLJAR_TEST_KEEP_ROOM" // the only room that writes; empty for all rooms
	// file with the steps that were reported before and must be there; empty if there are
	// none
	saidEnv = "BELLJAR_TEST_KEEP_SAID"
)

func TestMain(m *testing.M) {
	sandbox.Init() // a worker's boxes start this test binary as their helper
	if dir := os.Getenv(dirEnv); dir != "" {
		live(dir, os.Getenv(roomEnv), os.Getenv(saidEnv))
		os.Exit(1)
	}
	os.Exit(testenv.Checked(m).Run())
}

// live runs a writer. It ends on its own only after an error. It reports in lines:
//
//	lost ROOM STEP    this step was reported before, and is lost
//	checked N         all steps reported before were checked, and N rooms begin to write
//	said ROOM STEP    this step is acknowledged from now on
//	error WHY         an error that should not occur
func live(dir, only, said string) {
	ctx := context.Background()
	at := place{store: store.New(filepath.Join(dir, "state")), dir: dir, power: said != ""}
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...) // a single write, so that lines are not mixed
	}
	if said != "" {
		if err := look(ctx, at, said, say); err != nil {
			say("error", err)
			return
		}
	}
	tag := strings.ToLower(rand.Text()[:8])
	var writers sync.WaitGroup
	for name, r := range rooms {
		if only == "" || only == name {
			writers.Go(func() {
				err := r.write(ctx, at, tag, func(step string) { say("said", name, step) })
				say("error", name, err)
				os.Exit(1)
			})
		}
	}
	writers.Wait()
}

// look checks that the steps that were reported before, which are the lines of a file, are
// still there.
func look(ctx context.Context, at place, file string, say func(words ...any)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	said := make(map[string][]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, step, _ := strings.Cut(lines.Text(), " ")
		said[name] = append(said[name], step)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for name, r := range rooms {
		if len(said[name]) == 0 {
			continue
		}
		lost, err := r.missing(ctx, at, said[name])
		if err != nil {
			say("lost", name, "all:", err)
		}
		for _, step := range lost {
			say("lost", name, step)
		}
	}
	if len(said) > 0 {
		if err := sound(ctx, at); err != nil {
			say("lost", "state", "all:", err)
		}
	}
	say("checked", len(rooms))
	return nil
}

// sound returns an error if the database is damaged.
func sound(ctx context.Context, at place) error {
	var says string
	err := at.store.Tables(notes).Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&says)
	})
	if err == nil && says != "ok" {
		err = errors.New("the database says of itself: " + says)
	}
	return err
}
