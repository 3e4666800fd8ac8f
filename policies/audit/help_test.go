package audit

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
)

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// command is this test as a process that writes to a log.
func command(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), "AUDIT_TEST_WRITER="+dir)
	return cmd
}
