package gateway

import (
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

func TestMain(m *testing.M) {
	// This test binary is also the program that starts in boxes, and the servers of these
	// tests.
	sandbox.Init()
	upstreams.Main()
	testenv.Main(m)
}
