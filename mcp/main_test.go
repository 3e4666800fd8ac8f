package mcp_test

import (
	"testing"

	"belljar.dev/internal/testenv"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { testenv.Main(m) }
