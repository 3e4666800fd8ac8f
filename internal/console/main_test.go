package console

import (
	"fmt"
	"os"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Checked(withChrome{m}).Run()) }

// withChrome runs the tests, and ends the browser that they shared.
type withChrome struct{ m *testing.M }

func (w withChrome) Run() int {
	code := w.m.Run()
	if err := endChrome(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: end Chrome:", err)
		return max(code, 1)
	}
	return code
}
