package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Bounds of a token of an issuer.
const (
	maxJWT     = 8 << 10
	maxDepth   = 16
	maxKeyID   = 256 // length of the id of a key, in bytes
	maxSubject = 256 // length of a subject, in bytes
	maxHeld    = 100 // number of scopes
	// skew is how much the clock of an issuer may differ from ours.
	skew = time.Minute
)

// isJWT reports whether a text looks like a token of an issuer: its first part is a JSON
// object in base64url.
func isJWT(text string) bool {
	return (strings.HasPrefix(text, "ey") || strings.HasPrefix(text, "ew")) && strings.Contains(text, ".")
}

// jwt contains what a token says, before anything of it is checked.
type jwt struct {
	typ, alg, kid string
	issuer        string
	claims        map[string]any
}

// readJWT parses a token. It fetches nothing and trusts nothing: no key that the header
// contains or locates (jwk, jku, x5u, x5c) is used.
func readJWT(token string) (t jwt, bad *Refusal) {
	if len(token) > maxJWT {
		return t, refuse(Malformed, "", "it has %d bytes, and at most %d are read", len(token), maxJWT)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return t, refuse(Malformed, "", "it has %d parts instead of 3: a token that is encrypted is not accepted", len(parts))
	}
	header, err := decoded(parts[0])
	if err != nil {
		return t, refuse(Malformed, "", "its header: %v", err)
	}
	if bad := t.readHeader(header); bad != nil {
		return t, bad
	}
	payload, err := decoded(parts[1])
	if err != nil {
		return t, refuse(Malformed, "", "its payload: %v", err)
	}
	if err := json.Unmarshal(payload, &t.claims); err != nil {
		return t, refuse(Malformed, "", "its payload is not an object")
	}
	if t.issuer, _ = t.claims["iss"].(string); t.issuer == "" {
		return t, refuse(Issuer, "", "it names no issuer")
	}
	return t, nil
}

// decoded returns the JSON object in a part of a token. No member may be in the object
// twice, because parsers differ in which of the two they use.
func decoded(part string) ([]byte, error) {
	text, err := fromBase64(part)
	if err != nil {
		return nil, err
	}
	if err := wire.CheckJSON(text, maxDepth); err != nil {
		return nil, fmt.Errorf("it is not valid JSON")
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("it is not a JSON object")
	}
	return text, nil
}

// fromBase64 decodes a part of a token. It accepts one text for the same bytes.
func fromBase64(part string) ([]byte, error) {
	if strings.IndexFunc(part, notBase64) >= 0 { // the decoder of the standard library skips line ends
		return nil, errors.New("it is not base64url")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, errors.New("it is not base64url")
	}
	return b, nil
}

func notBase64(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func (t *jwt) readHeader(header []byte) (bad *Refusal) {
	wire.Members(header, func(member, value []byte) bool {
		into := map[string]*string{"typ": &t.typ, "alg": &t.alg, "kid": &t.kid}
		switch name := string(member); name {
		case "typ", "alg", "kid":
			if value[0] != '"' {
				bad = refuse(Malformed, "", "the member %s of its header is not a string", name)
				break
			}
			*into[name] = wire.Text(value)
		case "crit", "b64", "zip", "enc":
			// The extensions that these members ask for are not implemented, and a token
			// that needs one must not be accepted without it (RFC 7515, 4.1.11).
			bad = refuse(Malformed, "", "its header has the member %s", name)
		case "jwk":
			// Nothing is checked with this key. But a signer that sends a secret as its
			// public key is not trusted (RFC 7515, 4.1.3).
			var members map[string]any
			if json.Unmarshal(value, &members) == nil {
				if own, err := readPublic(members); err == nil && own.key != nil {
					break
				}
			}
			bad = refuse(Signature, "", "the key in its header is not a public key for signatures")
		}
		return bad == nil
	})
	if bad == nil && (len(t.kid) > maxKeyID || strings.ContainsFunc(t.kid, func(r rune) bool { return r < ' ' || r == 0x7f })) {
		bad = refuse(Malformed, "", "the id of its key is not a short string")
	}
	return bad
}

// typed reports whether an issuer's tokens may have the type of this token.
func (t *jwt) typed(i *policies.Issuer) bool {
	typ := strings.TrimPrefix(strings.ToLower(t.typ), "application/")
	return typ == "" || typ == policies.TypeAccess || i.PlainType && typ == strings.ToLower(policies.TypeJWT)
}

// check checks the claims of a token that its issuer has signed, and returns when the token
// expires. audience are the names of this server.
func (t *jwt) check(now time.Time, audience []string) (expires time.Time, bad *Refusal) {
	subject, _ := t.claims["sub"].(string)
	if subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, notInSubject) {
		return expires, refuse(Claims, "", "its subject is missing, or is not a short string")
	}
	whose := t.principal()
	// An ID token informs a client about its user. It is not meant for servers, and its
	// audience may be a client that has the same name as this server.
	for _, name := range []string{"nonce", "at_hash", "c_hash"} {
		if _, has := t.claims[name]; has {
			return expires, refuse(Claims, whose, "it is an ID token: it has the claim %s", name)
		}
	}
	if !t.names(audience) {
		return expires, refuse(Audience, whose, "it is for another audience than %s", strings.Join(audience, " "))
	}
	expires, ok := t.time("exp")
	switch {
	case !ok:
		return expires, refuse(Claims, whose, "its claim exp (when it expires) is missing, or is not a number")
	case !now.Before(expires.Add(skew)):
		return expires, refuse(Expired, whose, "at %s", expires.UTC().Format(time.RFC3339))
	}
	for _, name := range []string{"nbf", "iat"} {
		if _, has := t.claims[name]; !has {
			continue
		}
		if at, ok := t.time(name); !ok || at.After(now.Add(skew)) {
			return expires, refuse(Claims, whose, "its claim %s is not a number, or is a time in the future", name)
		}
	}
	return expires.Add(skew), nil
}

// notInSubject reports whether a character hides from a reader which subject is meant. JSON
// decodes each lone half of a surrogate pair as U+FFFD, which would make two different
// subjects equal.
func notInSubject(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError }

// principal names the owner of the sessions that the token opens. The URL of an issuer
// never contains "|".
func (t *jwt) principal() string {
	subject, _ := t.claims["sub"].(string)
	return t.issuer + "|" + subject
}

// latest is the largest accepted time of a claim, in seconds since 1970: the end of the
// year 9999.
const latest = 253402300799

// time returns a claim that is a NumericDate, and reports whether it is valid.
func (t *jwt) time(claim string) (time.Time, bool) {
	n, ok := t.claims[claim].(float64)
	if !ok || math.IsNaN(n) || n < 0 || n > latest {
		return time.Time{}, false
	}
	whole, part := math.Modf(n)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// names reports whether the token names one of the audiences.
func (t *jwt) names(audience []string) bool {
	ours := func(s string) bool { return slices.Contains(audience, canonical(s)) }
	switch aud := t.claims["aud"].(type) {
	case string:
		return ours(aud)
	case []any:
		return slices.ContainsFunc(aud, func(one any) bool {
			s, ok := one.(string)
			return ok && ours(s)
		})
	}
	return false
}

// canonical returns a server's name in the form in which names are compared. In a URL, the
// scheme and the host become lower case, and a default port and a slash at the end are
// removed. Nothing else is changed (RFC 8707, 2; RFC 3986, 6.2).
func canonical(name string) string {
	u, err := url.Parse(name)
	if err != nil || u.Host == "" || u.Scheme == "" || strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return name // some letters beyond ASCII become ASCII letters in lower case (U+212A)
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := map[string]string{"https": ":443", "http": ":80"}[scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	_, rest, _ := strings.Cut(name, "://")
	path := rest[len(u.Host):]
	if u.User != nil || !strings.HasPrefix(rest, u.Host) {
		return name
	}
	return scheme + "://" + host + strings.TrimSuffix(path, "/")
}

// scopes returns the scopes of the token that the policy knows. The result is never nil.
func (t *jwt) scopes(known []string) []string {
	held := []string{}
	add := func(s string) {
		if slices.Contains(known, s) && !slices.Contains(held, s) && len(held) < maxHeld {
			held = append(held, s)
		}
	}
	for _, name := range []string{"scope", "scp"} {
		switch value := t.claims[name].(type) {
		case string:
			for s := range strings.FieldsSeq(value) {
				add(s)
			}
		case []any:
			for _, one := range value {
				if s, ok := one.(string); ok {
					add(s)
				}
			}
		}
	}
	slices.Sort(held)
	return held
}
