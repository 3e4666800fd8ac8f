package cgroup

import (
	"testing"

	"belljar.dev/internal/testenv"
)

// The keeper of a Tree is this binary, which an init function of package boxinit
// makes of it.
func TestMain(m *testing.M) { testenv.Main(m) }
