package audit

import "strings"

// token is how secrets of one kind begin, and which bytes follow.
type token struct {
	name, prefix string
	least        int               // least number of bytes after the prefix
	of           func(c byte) bool // reports whether a byte can follow the prefix
	keep         bool              // the prefix is not secret and stays
}

// tokens are the secrets that can be recognised by their form, which their
// issuers document. A regular expression over all of them would cost more than
// the rest of a record; nearly every text contains none of the prefixes.
var tokens = []token{
	{"belljar-token", "bj_", 60, word, false},
	{"github-token", "ghp_", 30, word, false},
	{"github-token", "gho_", 30, word, false},
	{"github-token", "ghu_", 30, word, false},
	{"github-token", "ghs_", 30, word, false},
	{"github-token", "ghr_", 30, word, false},
	{"github-token", "github_pat_", 40, word, false},
	{"gitlab-token", "glpat-", 20, dashed, false},
	{"aws-key-id", "AKIA", 16, upper, false},
	{"aws-key-id", "ASIA", 16, upper, false},
	{"google-key", "AIza", 35, dashed, false},
	{"slack-token", "xox", 20, dashed, false},
	{"stripe-key", "sk_live_", 16, word, false},
	{"stripe-key", "rk_live_", 16, word, false},
	{"npm-token", "npm_", 36, word, false},
	{"pypi-token", "pypi-", 50, dashed, false},
	{"huggingface-token", "hf_", 30, word, false},
	{"api-key", "sk-", 20, dashed, false},
	{"jwt", "eyJ", 30, dotted, false},
	{"bearer", "Bearer ", 8, credential, true},
	{"bearer", "bearer ", 8, credential, true},
	{"basic", "Basic ", 8, credential, true},
}

func word(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}
func upper(c byte) bool      { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' }
func dashed(c byte) bool     { return word(c) || c == '-' }
func dotted(c byte) bool     { return dashed(c) || c == '.' }
func credential(c byte) bool { return dotted(c) || c == '+' || c == '/' || c == '=' || c == '~' }

// unquoted reports whether a byte can be in a value without quotes.
func unquoted(c byte) bool { return c > ' ' && strings.IndexByte("\"'`&;|<>()", c) < 0 }

// marks are the beginnings of all texts that the method tokens removes.
var marks = func() []string {
	all := append([]string{"-----BEGIN ", "://"}, telling...)
	for _, t := range tokens {
		all = append(all, t.prefix)
	}
	return all
}()

// pairs are the first two bytes of the marks, in both cases. Whole marks are only compared
// where a pair is found: in nearly every text each byte is looked at only once.
var pairs = func() (p [256][4]uint64) {
	for _, m := range marks {
		for _, a := range [2]byte{m[0], m[0] ^ 0x20} {
			for _, b := range [2]byte{m[1], m[1] ^ 0x20} {
				p[a][b>>6] |= 1 << (b & 63)
			}
		}
	}
	return p
}()

// suspicious reports whether a text may contain something that the method tokens removes.
func suspicious(s string) bool {
	for i := 0; i+1 < len(s); i++ {
		a, b := s[i], s[i+1]
		if pairs[a][b>>6]&(1<<(b&63)) == 0 {
			continue
		}
		for _, m := range marks {
			if m[0]|0x20 == a|0x20 && len(s)-i >= len(m) && strings.EqualFold(s[i:i+len(m)], m) {
				return true
			}
		}
	}
	return false
}

// tokens returns s without texts that look like secrets.
func (r *redactor) tokens(s string) string {
	if !suspicious(s) {
		return s
	}
	for _, t := range tokens {
		s = r.prefixed(s, t)
	}
	s = r.between(s, "private-key", "-----BEGIN ", "PRIVATE KEY-----")
	s = r.userinfo(s)
	return r.assigned(s)
}

// prefixed removes the tokens of one kind.
func (r *redactor) prefixed(s string, t token) string {
	from := 0
	for {
		i := strings.Index(s[from:], t.prefix)
		if i < 0 {
			return s
		}
		start := from + i
		end := start + len(t.prefix)
		for end < len(s) && t.of(s[end]) {
			end++
		}
		if end-start-len(t.prefix) < t.least || start > 0 && word(s[start-1]) {
			from = start + len(t.prefix)
			continue
		}
		if t.keep {
			start += len(t.prefix)
		}
		mark := r.mark(t.name, s[start:end])
		s = s[:start] + mark + s[end:]
		from = start + len(mark)
	}
}

// between removes PEM blocks (RFC 7468) that contain a private key. A block without an end
// reaches to the end of the text.
func (r *redactor) between(s, name, begin, label string) string {
	from := 0
	for {
		i := strings.Index(s[from:], begin)
		if i < 0 {
			return s
		}
		start := from + i
		first, rest, _ := strings.Cut(s[start+len(begin):], label)
		if len(first) > 32 || rest == "" && !strings.HasSuffix(s, label) {
			from = start + len(begin)
			continue
		}
		end := len(s)
		if j := strings.Index(rest, label); j >= 0 {
			end = len(s) - len(rest) + j + len(label)
		}
		mark := r.mark(name, s[start:end])
		s = s[:start] + mark + s[end:]
		from = start + len(mark)
	}
}

// userinfo removes the passwords from URLs.
func (r *redactor) userinfo(s string) string {
	from := 0
	for {
		i := strings.Index(s[from:], "://")
		if i < 0 {
			return s
		}
		start := from + i + len("://")
		end := start
		for end < len(s) && unquoted(s[end]) && s[end] != '/' && s[end] != '?' && s[end] != '#' {
			end++
		}
		from = end
		at := strings.LastIndexByte(s[start:end], '@')
		colon := strings.IndexByte(s[start:end], ':')
		if at < 0 || colon < 0 || colon+1 >= at {
			continue
		}
		mark := r.mark("password", s[start+colon+1:start+at])
		s = s[:start+colon+1] + mark + s[start+at:]
		from = start + colon + 1 + len(mark)
	}
}

// assigned removes the values of names that mean a secret: PASSWORD=x, token: x, --api-key
// x.
func (r *redactor) assigned(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] != '=' && s[i] != ':' && s[i] != ' ' {
			continue
		}
		end := i
		if end > 0 && s[i] != ' ' && (s[end-1] == '"' || s[end-1] == '\'') {
			end--
		}
		start := end
		for start > 0 && dashed(s[start-1]) && end-start < 64 {
			start--
		}
		name := s[start:end]
		if !sensitive(name) || s[i] == ' ' && !strings.HasPrefix(name, "--") {
			continue
		}
		from := i + 1
		for from < len(s) && from < i+4 && (s[from] == ' ' || s[from] == '"' || s[from] == '\'') {
			from++
		}
		end = from
		for end < len(s) && unquoted(s[end]) {
			end++
		}
		// A variable of a shell is not the secret itself, and a mark in brackets has
		// already replaced a secret.
		if end-from < 3 || s[from] == '$' || s[from] == '[' || s[from] == '-' && s[i] == ' ' {
			continue
		}
		mark := r.mark("secret", s[from:end])
		s = s[:from] + mark + s[end:]
		i = from + len(mark) - 1
	}
	return s
}

// telling are the words that names of secrets contain.
var telling = []string{"passw", "secret", "token", "apikey", "api_key", "api-key", "access_key", "private_key", "credential", "authorization"}

// mentions reports whether a name contains a word of telling, in upper or lower case.
func mentions(s string) bool {
	s = strings.ToLower(s)
	for _, w := range telling {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// sensitive reports whether a name says that its value is a secret.
func sensitive(name string) bool {
	switch name {
	// Numbers of tokens and names of files are not secrets.
	case "max_tokens", "tokens", "token_count", "max-tokens", "--max-tokens":
		return false
	}
	return len(name) <= 64 && mentions(name)
}
