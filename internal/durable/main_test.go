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

// The settings of a writer. internal/vmtest knows these names, too.
const (
	dirEnv  = "BELLJAR_TEST_KEEP"      // where it keeps what it writes; without it the tests run
	roomEnv = "BELLJAR_TEST_KEEP_ROOM" // the one room that writes; empty for all of them
	saidEnv = "BELLJAR_TEST_KEEP_SAID" // file of what was said before, to be looked for; empty for none
)

func TestMain(m *testing.M) {
	sandbox.Init() // the helpers of a worker's boxes start as this test binary
	if dir := os.Getenv(dirEnv); dir != "" {
		live(dir, os.Getenv(roomEnv), os.Getenv(saidEnv))
		os.Exit(1)
	}
	os.Exit(testenv.Checked(m).Run())
}

// live is the life of a writer. It ends by itself only after an error. It says in
// lines
//
//	lost ROOM STEP    this was said before, and is not there
//	checked N         all that was said before was looked for, and N rooms begin to write
//	said ROOM STEP    this is acknowledged from now on
//	error WHY         something failed, which is nobody's plan
func live(dir, only, said string) {
	ctx := context.Background()
	at := place{store: store.New(filepath.Join(dir, "state")), dir: dir, power: said != ""}
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...) // one write, so no line is cut by another
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

// look looks for what was said before, whose lines are in a file.
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

// sound asks the database whether it is one.
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
