package server

import (
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

func TestMain(m *testing.M) {
	// In boxes, this test binary is also the helper that starts there.
	sandbox.Init()
	testenv.Main(m)
}
