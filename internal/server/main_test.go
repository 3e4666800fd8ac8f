package server

import (
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

func TestMain(m *testing.M) {
	// The helpers of a box start as this test binary.
	sandbox.Init()
	testenv.Main(m)
}
