package job

import (
	"os"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("JOB_TEST_WRITER"); dir != "" {
		writeUntilKilled(dir)
		return
	}
	os.Exit(testenv.Checked(m).Run())
}
