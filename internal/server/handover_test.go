package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// A server continues if its successor does not start, or does not report that it is ready,
// and nothing is left of the successor.
func TestHandOverToNoServer(t *testing.T) {
	e := servedEstate(t)
	program, pid := filepath.Join(t.TempDir(), "belljar"), filepath.Join(t.TempDir(), "pid")
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"no program", "", 0, "no such file"},
		{"a program that nobody may run", "#!/bin/sh\n", 0o600, "permission denied"},
		{"not a program", "\x7fELF and nothing else\n", 0o700, "exec format error"},
		{"a program that ends", "#!/bin/sh\nexit 0\n", 0o700, "it ended before it was ready"},
		{"a program that does not end", "#!/bin/sh\necho $$ >" + pid + "\nexec sleep 1000\n", 0o700, "it was not ready within 10s"},
	} {
		if err := os.RemoveAll(program); err != nil {
			t.Fatal(err)
		}
		if tt.text != "" {
			if err := os.WriteFile(program, []byte(tt.text), tt.mode); err != nil {
				t.Fatal(err)
			}
		}
		if next, err := HandOver(t.Context(), e.Server, program, []string{"belljar"}, os.Environ()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the successor is %d, %v; want %s", tt.name, next, err, tt.want)
		}
		http.DefaultClient.CloseIdleConnections()
		if status, text, header := e.do("a", "/mcp", hello); status != http.StatusOK || header.Get("Connection") != "" {
			t.Errorf("%s: the server afterwards: %d %s", tt.name, status, text)
		}
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := fmt.Sscan(string(text), &number); err != nil {
		t.Fatal(err)
	}
	if !testenv.Until(10*time.Second, func() bool { return syscall.Kill(number, 0) != nil }) {
		t.Errorf("the successor %d is still there", number)
	}
}
