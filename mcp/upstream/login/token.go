package login

import (
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxToken bounds a token and a secret of a client, in bytes.
const maxToken = 16 << 10

// Token is an access token, a refresh token or the secret of a client. Nothing that prints or
// encodes values gets its text, also where it is a field of another value: it stands behind a
// pointer, at which package fmt stops.
type Token struct{ text *string }

// NewToken returns a text as a Token.
func NewToken(text string) Token {
	if text == "" {
		return Token{}
	}
	return Token{&text}
}

// hidden stands for a token in print.
const hidden = "[hidden]"

// String does not return the token.
func (Token) String() string { return hidden }

// GoString does not return the token.
func (Token) GoString() string { return hidden }

// LogValue does not return the token.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText does not return the token.
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// IsZero reports whether the token is absent.
func (t Token) IsZero() bool { return t.text == nil }

// reveal is the token.
func (t Token) reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// is reports whether two tokens are the same one.
func (t Token) is(other Token) bool {
	return !t.IsZero() && subtle.ConstantTimeCompare([]byte(t.reveal()), []byte(other.reveal())) == 1
}

// SetHeader makes a request one of the token's owner.
func (t Token) SetHeader(h http.Header) { h.Set("Authorization", "Bearer "+t.reveal()) }

// check returns an error if the token cannot be sent: it could end the header that it stands
// in.
func (t Token) check() error {
	text := t.reveal()
	if len(text) > maxToken || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("a token in it is too long, or has characters that tokens do not have")
	}
	return nil
}
