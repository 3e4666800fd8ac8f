package demo

import (
	"math/big"
	"strconv"

	"belljar.dev/mcp/wire"
)

// twoIntegers is the input schema of add and multiply.
const twoIntegers = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`

// Arithmetic returns the server with the tools add, multiply and Calculator. Before the
// notification initialized, it refuses every request except initialize and ping. It has no
// resources and no prompts.
func Arithmetic() *Server {
	return &Server{
		about: `{"protocolVersion":"2024-11-05","capabilities":{"prompts":{"listChanged":false},` +
			`"resources":{"subscribe":false,"listChanged":false},"tools":{"listChanged":false}},` +
			`"serverInfo":{"name":"Cangjie Magic Agent Server","version":"0.1"}}`,
		strict: true,
		tools: []tool{
			{"add", `{"name":"add","description":"Add two numbers","inputSchema":` + twoIntegers + `}`, ofIntegers((*big.Int).Add)},
			{"multiply", `{"name":"multiply","description":"Multiply two numbers","inputSchema":` + twoIntegers + `}`, ofIntegers((*big.Int).Mul)},
			{
				"Calculator", `{"name":"Calculator","description":"小学算术计算器","inputSchema":{"type":"object",` +
					`"properties":{"question":{"type":"string","description":"The input question"}},"required":["question"]}}`,
				calculate,
			},
		},
		methods: map[string]method{
			"resources/list":           empty("resources"),
			"resources/templates/list": empty("resourceTemplates"),
			"resources/read":           absent("uri", wire.NotFound, "resource %.64q does not exist"),
			"prompts/list":             empty("prompts"),
			"prompts/get":              absent("name", wire.InvalidParams, "invalid params: prompt %.64q does not exist"),
		},
	}
}

// absent returns a method for a server without resources or prompts: it answers every
// request with an error.
func absent(member string, kind wire.Kind, format string) method {
	return func(params []byte) (any, error) {
		name, err := text(params, member)
		if err != nil {
			return nil, err
		}
		return nil, wire.Errorf(kind, format, name)
	}
}

// ofIntegers returns a tool that computes a number from the arguments a and b.
func ofIntegers(compute func(z, a, b *big.Int) *big.Int) func([]byte) (string, error) {
	return func(args []byte) (string, error) {
		a, err := integer(args, "a")
		if err != nil {
			return "", err
		}
		b, err := integer(args, "b")
		if err != nil {
			return "", err
		}
		z := compute(new(big.Int), big.NewInt(a), big.NewInt(b))
		if !z.IsInt64() {
			return "", wire.Errorf(wire.InvalidParams, "invalid params: the result for %d and %d is %s, which has more than 64 bits", a, b, z)
		}
		return z.String(), nil
	}
}

// integer returns an argument that must be an integer of 64 bits. By JSON Schema, 2.0 and
// 1e3 are integers too, but they are refused: a caller who writes them means floats.
func integer(args []byte, name string) (int64, error) {
	value := wire.Member(args, name)
	if value == nil {
		return 0, wire.Errorf(wire.InvalidParams, "invalid params: %q is missing", name)
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, wire.Errorf(wire.InvalidParams, "invalid params: %q must be a whole number of 64 bits, got %.64s", name, value)
	}
	return n, nil
}

func calculate(args []byte) (string, error) {
	question, err := text(args, "question")
	if err != nil {
		return "", err
	}
	return evaluate(question)
}
