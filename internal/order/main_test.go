package order

import (
	"testing"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
