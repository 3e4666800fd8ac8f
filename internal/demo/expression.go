package demo

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression. Numbers are exact, and there are no powers, so a result has
// about as many digits as its expression.
const (
	maxExpression = 1000 // length in characters
	maxNesting    = 100  // number of brackets and signs within each other
	maxFraction   = 30   // number of digits after the point of a result
)

// evaluate computes an expression of primary-school arithmetic: numbers such as 12 and 0.5,
// + - * / × ÷ and brackets, also in full width. An equals sign and a question mark may
// follow. It does not understand sentences.
func evaluate(question string) (string, error) {
	if n := utf8.RuneCountInString(question); n > maxExpression {
		return "", fmt.Errorf("calculator: the question has %d characters, and at most %d are read", n, maxExpression)
	}
	p := parser{text: strings.TrimRight(strings.Map(narrow, question), " \t\r\n=?")}
	for _, r := range p.text {
		if !strings.ContainsRune("0123456789.+-*/() \t\r\n", r) {
			return "", fmt.Errorf("the calculator reads arithmetic and no sentences, and %q is not arithmetic: write the calculation itself, for example 3+4*2 or (1.5-0.5)÷4", r)
		}
	}
	value, err := p.sum()
	if err == nil && p.next() != 0 {
		err = fmt.Errorf("an operator should stand before %q", p.text[p.at:p.at+1])
	}
	if err != nil {
		return "", fmt.Errorf("calculator: %w", err)
	}
	return decimal(value), nil
}

// narrow returns the ASCII character for a full-width one, and for other signs of
// multiplication, division and minus.
func narrow(r rune) rune {
	switch {
	case '！' <= r && r <= '～':
		return r - '！' + '!'
	case r == '　':
		return ' '
	case r == '×':
		return '*'
	case r == '÷':
		return '/'
	case r == '−':
		return '-'
	}
	return r
}

// decimal returns a number with all its digits, or as a fraction if it has too many digits.
func decimal(x *big.Rat) string {
	if digits, exact := x.FloatPrec(); exact && digits <= maxFraction {
		return x.FloatString(digits)
	}
	return fmt.Sprintf("%s (about %s)", x.RatString(), new(big.Float).SetRat(x).Text('g', 10))
}

// parser parses an expression in ASCII from left to right.
type parser struct {
	text  string
	at    int
	depth int
}

// next skips space and returns the byte after it, or 0 at the end.
func (p *parser) next() byte {
	p.at += len(p.text[p.at:]) - len(strings.TrimLeft(p.text[p.at:], " \t\r\n"))
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// sum = product { ("+" | "-") product }
func (p *parser) sum() (*big.Rat, error) {
	total, err := p.product()
	for err == nil {
		sign := p.next()
		if sign != '+' && sign != '-' {
			return total, nil
		}
		p.at++
		var x *big.Rat
		if x, err = p.product(); err != nil {
			break
		}
		if sign == '-' {
			x.Neg(x)
		}
		total.Add(total, x)
	}
	return nil, err
}

// product = factor { ("*" | "/") factor }
func (p *parser) product() (*big.Rat, error) {
	total, err := p.factor()
	for err == nil {
		sign := p.next()
		if sign != '*' && sign != '/' {
			return total, nil
		}
		p.at++
		var x *big.Rat
		if x, err = p.factor(); err != nil {
			break
		}
		if sign == '/' {
			if x.Sign() == 0 {
				return nil, errors.New("division by zero")
			}
			x.Inv(x)
		}
		total.Mul(total, x)
	}
	return nil, err
}

// factor = ("+" | "-") factor | "(" sum ")" | number
func (p *parser) factor() (*big.Rat, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxNesting {
		return nil, fmt.Errorf("brackets and signs are nested deeper than %d levels", maxNesting)
	}
	switch b := p.next(); b {
	case '+', '-':
		p.at++
		x, err := p.factor()
		if err == nil && b == '-' {
			x.Neg(x)
		}
		return x, err
	case '(':
		p.at++
		x, err := p.sum()
		if err != nil {
			return nil, err
		}
		if p.next() != ')' {
			return nil, errors.New("a bracket is not closed")
		}
		p.at++
		return x, nil
	case 0:
		return nil, errors.New("the text ends where a number should stand")
	}
	return p.number()
}

// number = digits [ "." digits ]
func (p *parser) number() (*big.Rat, error) {
	from := p.at
	whole := p.digits()
	if whole > 0 && strings.HasPrefix(p.text[p.at:], ".") {
		p.at++
		if p.digits() == 0 {
			return nil, fmt.Errorf("a digit should stand after %q", p.text[from:p.at])
		}
	}
	if whole == 0 {
		return nil, fmt.Errorf("a number should stand before %q", p.text[from:from+1])
	}
	x, ok := new(big.Rat).SetString(p.text[from:p.at])
	if !ok {
		return nil, fmt.Errorf("%q is not a number", p.text[from:p.at])
	}
	return x, nil
}

func (p *parser) digits() (n int) {
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
		n++
	}
	return n
}
