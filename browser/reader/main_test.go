package reader_test

import (
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	testenv.Main(m)
}
