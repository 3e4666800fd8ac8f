package gateway

import (
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

func TestMain(m *testing.M) {
	// The helpers of a box, and servers for tests, start as this test binary.
	sandbox.Init()
	upstreams.Main()
	testenv.Main(m)
}
