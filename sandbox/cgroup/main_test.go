package cgroup

import (
	"testing"

	"belljar.dev/internal/testenv"
)

// The keeper of a Tree is this binary: an init function of package boxinit runs it as the
// keeper.
func TestMain(m *testing.M) { testenv.Main(m) }
