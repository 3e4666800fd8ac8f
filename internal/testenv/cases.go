package testenv

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// casesEnv is how many cases a test makes that makes them at random, and, behind
// a space, with which seed: "2000" or "2000 7".
const casesEnv = "BELLJAR_TEST_CASES"

// Cases is how many cases to make, few where nobody asks for more, and what makes
// them. It logs the seed with which the same ones are made again.
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
	t.Logf("%d cases; the same again: %s=\"%d %d\"", n, casesEnv, n, seed)
	return n, rand.New(rand.NewPCG(seed, 0))
}
