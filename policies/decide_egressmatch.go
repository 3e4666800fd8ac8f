package policies

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// egressMatch is the compiled form of an EgressRule or a SecretHeader.
type egressMatch struct {
	host     hostMatch
	ports    []uint16
	methods  []string
	paths    []glob
	folded   []glob // the paths in the form of fold, for rules that deny
	all      bool   // every request fits: neither methods nor paths narrow the rule, or it is invalid
	invalid  bool   // the rule cannot be read: it allows nothing and denies everything
	allow    string // name of the rule in a verdict; deny is the name under Deny
	deny     string
	requests string // methods and paths of the rule in words, for EgressVerdict.Reason
}

// hostMatch is the host of a rule.
type hostMatch struct {
	every bool   // "*"
	below string // ".name" of "*.name"
	host  Host   // any other host
}

// compileHost reads the host of a rule, without a port.
func compileHost(s string) (hostMatch, error) {
	name, wild := strings.CutPrefix(s, "*.")
	switch {
	case s == "*":
		return hostMatch{every: true}, nil
	case strings.Contains(name, "*"):
		return hostMatch{}, errors.New(`a star stands alone or before a whole name; write "*.name" for all names below a name, or "*" for every host; under allow it is every public name only`)
	}
	h, err := ParseHost(name)
	switch {
	case err != nil:
		return hostMatch{}, err
	case wild && h.Name() == "":
		return hostMatch{}, errors.New("there are no names below an address")
	case wild:
		return hostMatch{below: "." + h.Name()}, nil
	}
	return hostMatch{host: h}, nil
}

// String returns the host as rules spell it.
func (m hostMatch) String() string {
	switch {
	case m.every:
		return "*"
	case m.below != "":
		return "*" + m.below
	}
	return m.host.String()
}

// allows reports whether a rule that allows speaks about the host.
func (m hostMatch) allows(h Host) bool {
	if m.every {
		return h.Public()
	}
	return m.denies(h)
}

// denies reports whether a rule that denies speaks about the host.
func (m hostMatch) denies(h Host) bool {
	switch {
	case h.IsZero():
		return false
	case m.every:
		return true
	case m.below != "":
		return len(h.name) > len(m.below) && strings.HasSuffix(h.name, m.below)
	}
	return m.host == h
}

// overlaps reports whether some host fits both m and o, read as rules that allow.
func (m hostMatch) overlaps(o hostMatch) bool {
	switch {
	case m.every || o.every:
		other := o
		if o.every {
			other = m
		}
		// "*" allows public names only. A domain below which no name is public is one of
		// ownNames or below one, so any name below it shows whether there is one.
		return other.every || other.host.Public() || other.below != "" && Host{name: "x" + other.below}.Public()
	case m.below != "" && o.below != "":
		return strings.HasSuffix(m.below, o.below) || strings.HasSuffix(o.below, m.below)
	case m.below != "":
		return m.denies(o.host)
	}
	return o.denies(m.host)
}

// within reports whether o, read as a rule that denies, speaks about all hosts that m
// allows.
func (m hostMatch) within(o hostMatch) bool {
	switch {
	case o.every:
		return true
	case m.every:
		return false
	case m.below != "":
		return o.below != "" && strings.HasSuffix(m.below, o.below)
	}
	return o.denies(m.host)
}

// ready returns the compiled form of the rule.
func (r *EgressRule) ready() *egressMatch {
	if r.compiled != nil {
		return r.compiled
	}
	return compileEgress(r.Host, r.Ports, r.Methods, r.Paths)
}

func (s *SecretHeader) ready() *egressMatch {
	if s.compiled != nil {
		return s.compiled
	}
	return compileEgress(s.Host, nil, s.Methods, s.Paths)
}

// compileEgress compiles a rule. Parse has refused rules that cannot be read. A rule from
// another source that cannot be read allows nothing under Allow and denies everything under
// Deny.
func compileEgress(host string, ports []uint16, methods, paths []string) *egressMatch {
	m := &egressMatch{ports: ports, methods: methods, allow: "allow " + host, deny: "deny " + host}
	var err error
	m.host, err = compileHost(host)
	m.invalid = err != nil
	anyPath := len(paths) == 0
	for _, p := range paths {
		g, folded, err := compileRequestPath(p)
		m.invalid = m.invalid || err != nil
		m.paths, m.folded = append(m.paths, g), append(m.folded, folded)
		anyPath = anyPath || g.everything()
	}
	if m.invalid {
		m.host = hostMatch{} // fits no host, so the rule also makes no name resolvable
	}
	if anyPath {
		m.paths, m.folded = nil, nil
	}
	m.all = m.invalid || anyPath && len(methods) == 0
	m.requests = strings.Join(methods, ", ")
	if !anyPath {
		m.requests = cmp.Or(m.requests, "any method") + " of " + strings.Join(paths, ", ")
	}
	m.requests = Clip(m.requests, maxPart)
	return m
}

// allows reports whether the rule, as a rule of Allow, speaks about a connection.
func (m *egressMatch) allows(h Host, port uint16) bool {
	return !m.invalid && slices.Contains(m.ports, port) && m.host.allows(h)
}

// denies reports whether the rule, as a rule of Deny, speaks about a connection.
func (m *egressMatch) denies(h Host, port uint16) bool {
	return m.invalid || (len(m.ports) == 0 || slices.Contains(m.ports, port)) && m.host.denies(h)
}

// allowsRequest reports whether it is sure that the rule speaks about a request.
func (m *egressMatch) allowsRequest(method string, p requestPath) bool {
	if m.invalid || len(m.methods) > 0 && !slices.Contains(m.methods, method) {
		return false
	}
	return len(m.paths) == 0 ||
		!p.vague && slices.ContainsFunc(m.paths, func(g glob) bool { return g.run(p.words, false) })
}

// deniesRequest reports whether the rule may speak about a request. Servers
// differ about the case of methods and paths and about a closing slash.
func (m *egressMatch) deniesRequest(method string, p requestPath) bool {
	if m.invalid {
		return true
	}
	if len(m.methods) > 0 && !slices.ContainsFunc(m.methods, func(s string) bool { return strings.EqualFold(s, method) }) {
		return false
	}
	return len(m.folded) == 0 || p.vague ||
		slices.ContainsFunc(m.folded, func(g glob) bool { return g.run(p.folded, false) || g.run(p.short, false) })
}

// requestPath is the path of a request as rules see it.
type requestPath struct {
	words  []word // segments of the path
	folded []word // segments of the folded path
	short  []word // folded without a closing slash
	vague  bool   // servers differ in what the path means
}

// readRequestPath splits a path into its segments.
func readRequestPath(s string) requestPath {
	if s == "" {
		s = "/" // RFC 9112, 3.2.1
	}
	if vaguePath(s) {
		return requestPath{vague: true}
	}
	p := requestPath{words: literals(segments(escapesUpper(s))), folded: literals(segments(fold(s)))}
	p.short = p.folded
	if last := len(p.short) - 1; last >= 0 && p.short[last].text == "" {
		p.short = p.short[:last]
	}
	return p
}

// doubt returns the part of a reason that says that a path was vague.
func (p requestPath) doubt() string {
	if !p.vague {
		return ""
	}
	return "; servers read this path in different ways, so a rule with paths other than /** never allows it and always denies it: it contains a character beyond ASCII (escaped or not), a blank, an escape that is not valid or is of a letter, a digit or one of -._~/\\;?#%, //, /./, /../, a backslash or a semicolon"
}

// compileRequestPath makes the globs over the segments of a request's path: as the rule has
// it, and folded.
func compileRequestPath(s string) (g, folded glob, err error) {
	if strings.HasPrefix(s, "**") {
		return g, folded, fmt.Errorf("does not begin with a slash; write /%s", s)
	}
	s = escapesUpper(s)
	if g, err = compilePath(s); err != nil {
		return g, folded, err
	}
	// The text between the stars and braces must be something that a path can contain,
	// otherwise the rule would never match. And it must not contain an escaped star,
	// brace or comma, which would be a sign of the pattern in the folded path.
	fixed := strings.NewReplacer("**", "x", "*", "x", "{", "", "}", "", ",", "").Replace(s)
	if vaguePath(fixed) || strings.ContainsAny(fold(fixed), "*{},") {
		return g, folded, errors.New(`no path of a request surely looks like that: write blanks and quotes as escapes, for example %20, and letters, digits and - _ ~ . / without an escape; a comma, a star or a brace cannot be escaped; characters beyond ASCII and ; ? # \ % cannot be written, escaped or not, nor can //, /./ and /../`)
	}
	folded, err = compilePath(fold(s))
	return g, folded, err
}

// vaguePath reports whether servers differ in what a path means: it contains something that
// some servers decode, fold or cut off before they look at it.
func vaguePath(s string) bool {
	if s[0] != '/' {
		return true // for example "*" and the absolute form
	}
	segment := 1 // where the current segment begins
	for i := 1; i <= len(s); i++ {
		if i == len(s) || s[i] == '/' {
			part := s[segment:i]
			if part == "." || part == ".." || part == "" && i < len(s) {
				return true
			}
			segment = i + 1
			continue
		}
		switch c := s[i]; {
		case c == '%' && (i+2 >= len(s) || !safeEscape(s[i+1], s[i+2])):
			return true
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\\;?#", c) >= 0:
			return true
		}
	}
	return false
}

// fold returns the form in which lenient servers compare a path: in lower case, with
// escapes decoded. The path must not be vague.
func fold(s string) string {
	s = strings.ToLower(s)
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			b.WriteByte(byte(unhex(s[i+1])<<4 | unhex(s[i+2])))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// safeEscape reports whether an escape means the same to every server. The byte must not be
// an unreserved character (a letter, a digit or one of -._~; RFC 3986, 2.3), because some
// servers decode these before they compare paths. It must not be one at which servers cut a
// path, or a percent sign, with which some decode it a second time. Bytes beyond ASCII are
// not safe either: some servers read %C0%AE or %EF%BC%8F as a dot or a slash.
func safeEscape(high, low byte) bool {
	h, l := unhex(high), unhex(low)
	if h < 0 || l < 0 {
		return false
	}
	return strings.IndexByte(" !\"$&'()*+,:=@[]^`{|}<>", byte(h<<4|l)) >= 0
}

// unhex returns the value of a hexadecimal digit, or -1.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// escapesUpper writes the digits of escapes in capitals.
func escapesUpper(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToUpper(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// coverPorts reports whether a rule of Deny with the ports deny covers all ports of a rule
// of Allow.
func coverPorts(deny, allow []uint16) bool {
	return len(deny) == 0 || !slices.ContainsFunc(allow, func(p uint16) bool { return !slices.Contains(deny, p) })
}
