package auth

import (
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// The form of a token is bj_ID_SECRET_CHECK. People and scanners of source code recognize a
// token by its prefix and its check, without a server.
const (
	tokenPrefix = "bj_"
	idLength    = 10
	secretBytes = 32
	// secretLength and checkLength are the maximum lengths of 32 and 4 bytes in base 62.
	// Shorter texts are filled up with zeros in front.
	secretLength = 43
	checkLength  = 6
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + 1 + checkLength
)

// isToken reports whether a text looks like a token made by belljar.
func isToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// IDOf returns the id in a token. If the text is not a token of belljar's, it may already
// be an id, and IDOf returns it.
func IDOf(text string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(text, tokenPrefix), "_")
	return id
}

// newToken returns a new token with a new id.
func newToken() (id, secret, token string) {
	id = strings.ToLower(rand.Text()[:idLength])
	var raw [secretBytes]byte
	rand.Read(raw[:])
	secret = base62(new(big.Int).SetBytes(raw[:]), secretLength)
	return id, secret, tokenPrefix + id + "_" + secret + "_" + check(id, secret)
}

// parseToken returns the parts of a token. The check of a token only shows whether the
// token was copied completely; it protects nothing.
func parseToken(token string) (id, secret string, err error) {
	if len(token) != tokenLength {
		return "", "", fmt.Errorf("the token has %d characters instead of %d", len(token), tokenLength)
	}
	parts := strings.Split(strings.TrimPrefix(token, tokenPrefix), "_")
	if len(parts) != 3 || len(parts[0]) != idLength || len(parts[1]) != secretLength {
		return "", "", fmt.Errorf("the token is not of the form %sID_SECRET_CHECK", tokenPrefix)
	}
	if strings.IndexFunc(parts[0], notID) >= 0 {
		return "", "", fmt.Errorf("the id in the token has characters that an id cannot have")
	}
	if check(parts[0], parts[1]) != parts[2] {
		return "", "", fmt.Errorf("the token was not copied whole: its check does not match")
	}
	return parts[0], parts[1], nil
}

func notID(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }

// check returns the last part of a token: the CRC-32 of the other parts.
func check(id, secret string) string {
	sum := crc32.ChecksumIEEE([]byte(tokenPrefix + id + "_" + secret))
	return base62(new(big.Int).SetUint64(uint64(sum)), checkLength)
}

// base62 writes a number only with digits and letters, so that a double click selects the
// whole token.
func base62(n *big.Int, length int) string {
	text := n.Text(62)
	return strings.Repeat("0", length-len(text)) + text
}
