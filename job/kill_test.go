package job

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/state"
)

// writeUntilKilled is a process that runs jobs, and says each step of them that
// is kept.
func writeUntilKilled(dir string) {
	ctx := context.Background()
	self := strconv.Itoa(os.Getpid())
	b, err := New(Config{Store: state.New(dir), Dir: filepath.Join(dir, "jobs"), Place: place, Self: self})
	for n := 0; err == nil; n++ {
		var j Job
		if j, err = b.Open(ctx, Owner{Tenant: self, Session: "s"}, Job{Tool: "Bash", Command: "make", Output: fmt.Sprintf("output%sx%d", self, n)}); err != nil {
			break
		}
		fmt.Fprintln(os.Stdout, "begun", self, j.ID, j.Handle)
		var spool *Output
		if spool, err = b.Spool(j); err != nil {
			break
		}
		text := fmt.Sprintf("written %d\n", j.ID)
		if _, err = spool.Write([]byte(text)); err != nil {
			break
		}
		fmt.Fprintln(os.Stdout, "wrote", self, j.ID, j.Handle)
		if err = spool.Close(); err != nil {
			break
		}
		if n%3 == 2 {
			continue // it runs on
		}
		if err = b.End(ctx, j, "exited", End{}, int64(len(text))); err != nil {
			break
		}
		fmt.Fprintln(os.Stdout, "ended", self, j.ID, j.Handle)
		if err = b.Answer(ctx, j.Handle, "completed", Answer(`{"of":`+strconv.FormatInt(j.ID, 10)+`}`)); err != nil {
			break
		}
		fmt.Fprintln(os.Stdout, "answered", self, j.ID, j.Handle)
	}
	fmt.Fprintln(os.Stdout, "error:", err)
	os.Exit(1)
}

// TestKilledWhileWriting kills 200 programs in the middle of their work. What one
// has said is so afterwards, and what ran is lost with what it had written.
func TestKilledWhileWriting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	kills := 200
	if testing.Short() {
		kills = 20
	}
	kills = max(kills/int(testenv.Patience(t)), 4)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said [][]string
	for i := range kills {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), "JOB_TEST_WRITER="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Fatalf("a writer stopped: %s", lines.Text())
			}
			said = append(said, strings.Fields(lines.Text()))
			if n++; n == 1+i%13 {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // it was killed
	}

	b := opened(t, dir, "after")
	lost, running := 0, 0
	for _, line := range said {
		j, err := b.ByHandle(t.Context(), Owner{Tenant: line[1], Session: "next"}, line[3])
		var text string
		if err == nil && line[0] != "begun" {
			text = content(t, b, j)
		}
		ok := err == nil
		switch line[0] {
		case "begun":
			ok = ok && (j.Status == Lost || j.Status == "exited")
		case "wrote":
			ok = ok && text == "written "+line[2]+"\n"
		case "ended":
			ok = ok && j.Status == "exited" && j.Size == int64(len(text))
		case "answered":
			answer, err := b.AnswerOf(t.Context(), j)
			ok = ok && err == nil && string(answer) == `{"of":`+line[2]+`}`
		}
		if !ok {
			lost++
			t.Errorf("%v was said, and there is %+v with %q, %v", line, j, text, err)
		}
		if j.Status == Lost {
			running++
		}
	}
	t.Logf("%d kills, %d words, %d of them about jobs that were running, %d lost", kills, len(said), running, lost)
}
