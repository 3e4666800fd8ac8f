package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ansi decodes the inside of $'...' as bash does. exact is false if the result in bash
// depends on the locale.
func ansi(s string) (text string, exact bool) {
	var b strings.Builder
	exact = true
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if k := strings.IndexByte(`abeEfnrtv\'"?`, c); k >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[k])
			continue
		}
		base, most, from := 16, 2, i+1
		switch c {
		case '0', '1', '2', '3', '4', '5', '6', '7':
			base, most, from = 8, 3, i
		case 'x':
			exact = exact && (i+1 == len(s) || s[i+1] != '{')
		case 'u':
			most = 4
		case 'U':
			most = 8
		case 'c':
			if i+1 < len(s) {
				i++
				exact = exact && s[i] < utf8.RuneSelf && s[i] != '\\'
				b.WriteByte(s[i] & 0x1f)
				continue
			}
			fallthrough
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		to := from
		for to < len(s) && to < from+most && digit(s[to], base) {
			to++
		}
		n, err := strconv.ParseUint(s[from:to], base, 32)
		switch {
		case err != nil: // there are no digits
			b.WriteByte('\\')
			b.WriteByte(c)
		case n == 0:
			return b.String(), exact // the text ends here for bash
		case c == 'u' || c == 'U':
			exact = exact && n < utf8.RuneSelf
			b.WriteRune(rune(min(n, utf8.MaxRune)))
		default:
			b.WriteByte(byte(n)) // bash keeps the low eight bits too
		}
		i = to - 1
	}
	if strings.IndexByte(b.String(), 0) >= 0 { // \c@ gives a NUL byte
		text, _, _ = strings.Cut(b.String(), "\x00")
		return text, exact
	}
	return b.String(), exact
}

func digit(c byte, base int) bool {
	if base == 8 {
		return c >= '0' && c <= '7'
	}
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
