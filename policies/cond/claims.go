package cond

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
)

// claimsVar is the only variable of a condition about a token.
const claimsVar = "claims"

// claimsLanguage is the language of conditions about tokens, made at the first use.
var claimsLanguage = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(append(bounds(), cel.Variable(claimsVar, cel.MapType(cel.StringType, cel.DynType)))...)
})

// Claims is a condition about the claims of a token. It never changes and is safe for
// concurrent use.
type Claims struct {
	text    string
	program cel.Program
}

// CompileClaims reads a condition that looks at the variable claims: the members of the
// token's payload, by name. It returns the condition, or all faults of the text.
func CompileClaims(text string) (*Claims, []Fault) {
	if len(text) > MaxText {
		return nil, []Fault{{Line: 1, Col: 1, Message: fmt.Sprintf("has %d bytes, more than %d", len(text), MaxText), Hint: "make several conditions of it"}}
	}
	env, err := claimsLanguage()
	if err != nil {
		return nil, []Fault{{Line: 1, Col: 1, Message: err.Error()}}
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, faults(issues, Args{})
	}
	program, wrong := newProgram(env, tree, `claims.org == "acme"`)
	if len(wrong) > 0 {
		return nil, wrong
	}
	return &Claims{text: text, program: program}, nil
}

// String returns the text of the condition.
func (c *Claims) String() string { return c.text }

// Holds evaluates the condition. It fails if a claim that the condition looks at is missing
// or of another type.
func (c *Claims) Holds(claims map[string]any) (bool, error) {
	return holds(c.program, map[string]any{claimsVar: claims})
}
