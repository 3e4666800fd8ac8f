package testenv

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// casesEnv is the environment variable with the number of random cases that a test makes,
// optionally followed by a space and the seed: "2000" or "2000 7".
const casesEnv = "BELLJAR_TEST_CASES"

// Cases returns the number of cases to make, and the random generator for them. The number
// is few unless casesEnv is set. It logs the seed that makes the same cases again.
func Cases(t testing.TB, few int) (n int, r *rand.Rand) {
	t.Helper()
	n, seed := few, rand.Uint64()
	if text := os.Getenv(casesEnv); text != "" {
		number, rest, seeded := strings.Cut(text, " ")
		var err error
		if n, err = strconv.Atoi(number); err != nil || n < 1 {
			t.Fatalf("%s is %q, want a number of cases, and a seed or none", casesEnv, text)
		}
		if seeded {
			if seed, err = strconv.ParseUint(rest, 10, 64); err != nil {
				t.Fatalf("%s is %q, want a number of cases, and a seed or none", casesEnv, text)
			}
		}
	}
	t.Logf("%d cases; to run the same cases again: %s=\"%d %d\"", n, casesEnv, n, seed)
	return n, rand.New(rand.NewPCG(seed, 0))
}
