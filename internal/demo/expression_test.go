package demo

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestCalculator(t *testing.T) {
	for question, want := range map[string]string{
		"3+4*2":                   "11",
		" ( 3 + 4 ) * 2 ":         "14",
		"3+4=?":                   "7",
		"３＋４×２＝？":                 "11",
		"（１．５－０．５）÷４":             "0.25",
		"8−2×3":                   "2",
		"10/4":                    "2.5",
		"0.1+0.2":                 "0.3",
		"1/3*3":                   "1",
		"10÷3":                    "10/3 (about 3.333333333)",
		"-3--3":                   "0",
		"-(2+3)*-2":               "10",
		"2-3-4":                   "-5",
		"100/10/2":                "5",
		"99999999999999999999*10": "999999999999999999990",
		"1/1024":                  "0.0009765625",
		"007":                     "7",
	} {
		if got, err := evaluate(question); err != nil || got != want {
			t.Errorf("%q: got %q and %v, want %s", question, got, err, want)
		}
	}
	deep := func(n int) string { return strings.Repeat("(", n) + "1" + strings.Repeat(")", n) }
	if got, err := evaluate(deep(maxNesting - 1)); err != nil || got != "1" {
		t.Errorf("%d brackets: got %q and %v, want 1", maxNesting-1, got, err)
	}
	if got, err := evaluate(strings.Repeat("1", maxExpression)); err != nil || len(got) != maxExpression {
		t.Errorf("a number of %d digits: got %q and %v", maxExpression, got, err)
	}
	for question, want := range map[string]string{
		"1/0":                                 "division by zero",
		"1/(2-2)":                             "division by zero",
		"":                                    "the text ends where a number should stand",
		"=?":                                  "the text ends where a number should stand",
		"3+":                                  "the text ends where a number should stand",
		"(3":                                  "a bracket is not closed",
		"3)":                                  `an operator should stand before ")"`,
		"2(3)":                                `an operator should stand before "("`,
		"1 2":                                 `an operator should stand before "2"`,
		"1.2.3":                               `an operator should stand before "."`,
		"5.":                                  `a digit should stand after "5."`,
		".5":                                  `a number should stand before "."`,
		"*3":                                  `a number should stand before "*"`,
		"()":                                  `a number should stand before ")"`,
		deep(maxNesting):                      "nested deeper than 100 levels",
		strings.Repeat("-", maxNesting) + "1": "nested deeper than 100 levels",
		strings.Repeat("1", maxExpression+1):  "has 1001 characters, and at most 1000 are read",
		"小明有3个苹果，又买了4个，一共几个？": "reads arithmetic and no sentences",
		"what is 3+4?": "reads arithmetic and no sentences",
		"1e9":          "reads arithmetic and no sentences",
		"2^64":         "reads arithmetic and no sentences",
		"3=3":          "reads arithmetic and no sentences",
		"一加一":          "reads arithmetic and no sentences",
		"3\x00":        "reads arithmetic and no sentences",
	} {
		if got, err := evaluate(question); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %q and %v, want an error with %q", question, got, err, want)
		}
	}
}

// expression returns a random expression, in the spelling of the calculator and in the
// spelling of Go.
func expression(r *rand.Rand, depth int) (ours, theirs string) {
	if depth == 0 || r.IntN(4) == 0 {
		ours = fmt.Sprintf("%d.%d", r.IntN(100), r.IntN(100))
		return ours, ours
	}
	a, goA := expression(r, depth-1)
	b, goB := expression(r, depth-1)
	signs := [][2]string{{"+", "+"}, {"-", "-"}, {"×", "*"}, {"＊", "*"}, {"÷", "/"}, {"−", "-"}, {" ＋ ", "+"}}
	sign := signs[r.IntN(len(signs))]
	ours, theirs = a+sign[0]+b, goA+" "+sign[1]+" "+goB
	switch r.IntN(3) {
	case 0:
		ours, theirs = "("+ours+")", "("+theirs+")"
	case 1:
		ours, theirs = "-（"+ours+"）", "-("+theirs+")"
	}
	return ours, theirs
}

// The calculator and the Go compiler, whose constants are exact, compute the same numbers.
func TestCalculatorIsExact(t *testing.T) {
	cases, r := testenv.Cases(t, 300)
	computed := 0
	for range cases {
		ours, theirs := expression(r, 4)
		got, err := evaluate(ours)
		want, failed := types.Eval(token.NewFileSet(), nil, token.NoPos, theirs)
		if (err != nil) != (failed != nil) {
			t.Errorf("%s: got %q and %v; Go says %v", ours, got, err, failed)
			continue
		}
		if err != nil {
			continue
		}
		computed++
		number, _, _ := strings.Cut(got, " ")
		x, ok := new(big.Rat).SetString(number)
		y, exact := new(big.Rat).SetString(constant.ToFloat(want.Value).ExactString())
		if !ok || !exact || x.Cmp(y) != 0 {
			t.Errorf("%s: got %s, want %s", ours, got, want.Value.ExactString())
		}
	}
	if computed < cases/2 {
		t.Errorf("%d of %d expressions had a value, which are too few to show anything", computed, cases)
	}
}

// FuzzEvaluate checks that every question gets a short answer.
func FuzzEvaluate(f *testing.F) {
	f.Add("(1.5-0.5)÷4")
	f.Add("1/3+1/7-1/11")
	f.Fuzz(func(t *testing.T, question string) {
		if got, err := evaluate(question); err == nil && len(got) > 3*maxExpression {
			t.Errorf("%q: got %d bytes", question, len(got))
		}
	})
}
