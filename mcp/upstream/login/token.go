package login

import (
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxToken bounds a token or a client's secret, in bytes.
const maxToken = 16 << 10

// Token is an access token, a refresh token or a client's secret. No function that prints
// or encodes values gets its text, even if the Token is a field of another value: the text
// is behind a pointer, which package fmt does not follow.
type Token struct{ text *string }

// NewToken returns a text as a Token.
func NewToken(text string) Token {
	if text == "" {
		return Token{}
	}
	return Token{&text}
}

// hidden is printed in place of a token.
const hidden = "[hidden]"

// String returns a placeholder, and not the token.
func (Token) String() string { return hidden }

// GoString returns a placeholder, and not the token.
func (Token) GoString() string { return hidden }

// LogValue returns a placeholder, and not the token.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText returns a placeholder, and not the token.
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// IsZero reports whether the token is empty.
func (t Token) IsZero() bool { return t.text == nil }

// reveal returns the text of the token.
func (t Token) reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// is reports whether two tokens are equal. Two empty tokens are not.
func (t Token) is(other Token) bool {
	return !t.IsZero() && subtle.ConstantTimeCompare([]byte(t.reveal()), []byte(other.reveal())) == 1
}

// SetHeader adds the token to the headers of a request.
func (t Token) SetHeader(h http.Header) { h.Set("Authorization", "Bearer "+t.reveal()) }

// check returns an error if the token cannot be sent: it could end the header that contains
// it.
func (t Token) check() error {
	text := t.reveal()
	if len(text) > maxToken || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("a token in it is too long, or contains a character that a token cannot contain")
	}
	return nil
}
