package audit

import "strings"

// mails returns s without mail addresses in their usual form, local@domain.tld
// (RFC 5321, section 4.1.2, without quoted local parts).
func (r *redactor) mails(s string) string {
	from := 0
	for {
		i := strings.IndexByte(s[from:], '@')
		if i < 0 {
			return s
		}
		at := from + i
		start := at
		for start > from && at-start < 64 && local(s[start-1]) {
			start--
		}
		for start < at && s[start] == '.' {
			start++
		}
		end := at + 1
		for end < len(s) && end-at < 254 && (dashed(s[end]) && s[end] != '_' || s[end] == '.') {
			end++
		}
		for end > at+1 && (s[end-1] == '.' || s[end-1] == '-') {
			end--
		}
		// A domain has a dot and ends in letters: user@host of ssh and pkg@1.2.3
		// of a package manager are not addresses.
		dot := strings.LastIndexByte(s[at:end], '.')
		if start == at || dot < 2 || at+dot+2 >= end || !letters(s[at+dot+1:end]) {
			from = at + 1
			continue
		}
		mark := r.mark("email", s[start:end])
		s = s[:start] + mark + s[end:]
		from = start + len(mark)
	}
}

// local reports whether a byte may be before the @. Quotes of a shell may not.
func local(c byte) bool { return dashed(c) || strings.IndexByte(".+%", c) >= 0 }

func letters(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') }) < 0
}
