package egress

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the length below which a value is not looked for in what comes
// back: it would be found in every text.
const minSecret = 6

// mask is a value that must not be seen, in the forms in which it may come
// back: as it is, escaped for a URL, in base64. In base64 three bytes make four
// characters, so a value looks different at each of three offsets; of each,
// the part that only the value makes is looked for.
type mask struct {
	name  string
	value string
	forms []string // longest first; empty for a value too short to look for
}

func newMask(name, value string) mask {
	m := mask{name: name, value: value}
	if len(value) < minSecret {
		return m
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for offset := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := alphabet.EncodeToString([]byte(strings.Repeat("\x00", offset) + value))
			// The first characters hold bits of what stands before, the last
			// one, unless the group is full, of what comes behind.
			from, to := (offset*8+5)/6, len(text)
			if (offset+len(value))%3 != 0 {
				to--
			}
			forms = append(forms, text[from:to])
		}
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	m.forms = slices.DeleteFunc(slices.Compact(forms), func(f string) bool { return len(f) < minSecret })
	return m
}

// hide replaces the value, in all its forms, by its secret's name.
func (m mask) hide(s string) string {
	for _, f := range m.forms {
		s = strings.ReplaceAll(s, f, "[secret "+m.name+"]")
	}
	return s
}

// blot overwrites the value in b with asterisks, so that no length changes.
func (m mask) blot(b []byte) {
	for _, f := range m.forms {
		form := []byte(f)
		for i := bytes.Index(b, form); i >= 0; {
			end := i + len(form)
			for ; i < end; i++ {
				b[i] = '*'
			}
			next := bytes.Index(b[end:], form)
			if next < 0 {
				break
			}
			i = end + next
		}
	}
}

// held is how many bytes at the end of b may be the beginning of the value.
func (m mask) held(b []byte) int {
	most := 0
	for _, f := range m.forms {
		for n := min(len(f)-1, len(b)); n > most; n-- {
			if string(b[len(b)-n:]) == f[:n] {
				most = n
				break
			}
		}
	}
	return most
}

// masked reads a text in which values are blotted out. It gives on what it has
// as soon as it is clear that it is no beginning of a value.
type masked struct {
	from  io.Reader
	masks []mask
	buf   []byte // clean up to ready; what follows may be the beginning of a value
	ready int
	err   error // of from, given once buf is empty
}

func newMasked(from io.Reader, masks []mask) *masked {
	return &masked{from: from, masks: masks}
}

func (m *masked) Read(p []byte) (int, error) {
	for m.ready == 0 && m.err == nil {
		m.fill()
	}
	if m.ready == 0 {
		return 0, m.err
	}
	n := copy(p, m.buf[:m.ready])
	m.buf = append(m.buf[:0], m.buf[n:]...)
	m.ready -= n
	return n, nil
}

// fill reads once and sees how much of buf is clean.
func (m *masked) fill() {
	const step = 16 << 10
	used := len(m.buf)
	m.buf = slices.Grow(m.buf, step)
	n, err := m.from.Read(m.buf[used : used+step])
	m.buf, m.err = m.buf[:used+n], err
	held := 0
	for _, v := range m.masks {
		v.blot(m.buf)
		if err == nil {
			held = max(held, v.held(m.buf))
		}
	}
	m.ready = len(m.buf) - held
}
