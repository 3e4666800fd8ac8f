package mcp_test

import (
	"fmt"
	"os"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(serveEnv); kind != "" {
		if err := serveMeasured(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}
