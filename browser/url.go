package browser

import (
	"errors"
	"net/url"
	"strings"
)

// parseURL reads the address of a page more strictly than Chrome does. It refuses an
// address that Chrome would change into another one, since an earlier check of the
// address may have read it literally.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > 16<<10 {
		return nil, errors.New("it is longer than 16 KiB")
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }); i >= 0 {
		return nil, errors.New("it contains a space, a backslash or a character that cannot be seen")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("it cannot be read")
	case u.Hostname() == "":
		return nil, errors.New("it names no host")
	}
	return u, nil
}

// validHeader reports whether a request can have a header (RFC 9110, 5.5 and
// 5.6.2).
func validHeader(name, value string) bool {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && len(name) <= 256 && strings.Trim(name, token) == "" &&
		len(value) <= 8<<10 && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
