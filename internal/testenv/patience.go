package testenv

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// patienceEnv is the environment variable with the factor by which this machine is slower
// than a usual one. internal/vmtest sets it in guests whose processor is emulated.
const patienceEnv = "BELLJAR_TEST_PATIENCE"

// Patience returns the factor for times in a test that were chosen for a usual machine, for
// example
//
//	Timeout: 2 * time.Second * testenv.Patience(t)
//
// A test may divide the number of its rounds by the factor. It is 1 on a usual machine.
func Patience(t testing.TB) time.Duration {
	t.Helper()
	const most = 1000
	text := os.Getenv(patienceEnv)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		t.Fatalf("%s is %q, want a whole number from 1 to %d", patienceEnv, text, most)
	}
	return time.Duration(n)
}
