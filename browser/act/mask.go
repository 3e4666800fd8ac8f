package act

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// masks contains the secrets that were typed in a seat. Every text that leaves the seat
// passes through hide, which masks a secret as it is and in the forms that pages make of
// it.
type masks struct {
	mu    sync.RWMutex
	names map[string]string // names of the secrets, by their values
	forms []string          // forms of all secrets, longest first
	most  int               // bytes that are left out before a cutMark; at least those of the longest form
	by    map[string]string // text that is written instead of a form, by the form

	spaced bool // whether a secret has a space or a quotation mark
}

const maxSecret = 256 // bytes of a secret

// add adds a secret, which is not empty.
func (m *masks) add(name, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names, m.by = map[string]string{}, map[string]string{}
	}
	if _, ok := m.names[value]; ok {
		return
	}
	m.names[value] = name
	for _, form := range formsOf(value) {
		m.by[form] = "(secret " + name + ")"
	}
	m.forms = m.forms[:0]
	for form := range m.by {
		m.forms = append(m.forms, form)
	}
	slices.SortFunc(m.forms, func(a, b string) int { return len(b) - len(a) })
	m.most = (len(m.forms[0]) + 63) / 64 * 64
	m.spaced = m.spaced || strings.ContainsAny(value, ` "`)
}

// formsOf returns a value and the forms in which it is written elsewhere.
func formsOf(value string) []string {
	runes := []rune(value)
	slices.Reverse(runes)
	forms := append(writings(value), writings(string(runes))...)
	// The base64 form of a value depends on the place where the value begins, and the
	// letters at both ends depend on the text around it.
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + value))
			text = text[(shift*8+5)/6:]
			if rest := (shift + len(value)) % 3; rest != 0 {
				text = text[:len(text)-1]
			}
			if len(text) >= 6 {
				forms = append(forms, text)
			}
		}
	}
	slices.Sort(forms)
	return slices.DeleteFunc(slices.Compact(forms), func(s string) bool { return s == "" })
}

// writings returns a text and the forms in which browsers and Go write it in addresses and
// in HTML.
func writings(value string) []string {
	return []string{
		value, html.EscapeString(value), url.QueryEscape(value), url.PathEscape(value),
		// These are forms of browsers: in HTML, by encodeURIComponent, in a form, in a
		// query and in a path.
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(value),
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(value),
		percent(value, "-_.!~*'()"),
		strings.ReplaceAll(percent(value, "*-._ "), " ", "+"),
		percent(value, "!$%&()*+,-./:;=?@[\\]^_`{|}~"),
		percent(value, "!$%&'()*+,-./:;=@[\\]_|~"),
	}
}

// percent returns a text in which all bytes except letters, digits and those of keep are
// written as %XX.
func percent(text, keep string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; strings.IndexByte(plain, c) >= 0 || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// any reports whether there is something to mask.
func (m *masks) any() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.forms) > 0
}

// cutMark is the end of a text that was cut before its secrets were masked. The scripts
// (js/touch.js) and clip write it, and hide replaces it. It is not a character of any text
// (Unicode, 23.7).
const cutMark = "\uffff"

// clip cuts a text that is not masked yet to most characters. If something is cut off, a
// cutMark is added.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + cutMark
		}
	}
	return text
}

// hide returns a text with the secrets masked. It replaces each cutMark by "…", and if there
// are secrets, leaves out so much before it that no beginning of a secret can remain. How
// much it leaves out does not depend on the text: otherwise an agent that chooses the text
// and its cut could find out the letters of a secret one by one.
func (m *masks) hide(text string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var b strings.Builder
	for {
		part, rest, was := strings.Cut(text, cutMark)
		for _, form := range m.forms {
			if strings.Contains(part, form) {
				part = strings.ReplaceAll(part, form, m.by[form])
			}
		}
		if !was && b.Len() == 0 {
			return part
		}
		if !was {
			b.WriteString(part)
			return b.String()
		}
		b.WriteString(strings.ToValidUTF8(part[:max(0, len(part)-m.most)], "") + "…")
		text = rest
	}
}

// hideReason is hide for the text of a refusal by the policy, in which the address or the
// name before a "..." may have been cut (policies.Clip), and is left out for the reason that
// hide has.
func (m *masks) hideReason(text string) string {
	if !m.any() {
		return text
	}
	m.mu.RLock()
	most, spaced := m.most, m.spaced
	m.mu.RUnlock()
	parts := strings.Split(text, "...")
	for i, part := range parts[:len(parts)-1] {
		keep := strings.LastIndexAny(part, " \"") + 1
		if spaced { // a word may be the end of the beginning of a secret
			keep = min(keep, max(0, len(part)-most))
		}
		parts[i] = strings.ToValidUTF8(part[:keep], "")
	}
	return m.hide(strings.Join(parts, "…"))
}

// spots returns the places of the forms in a text, in bytes.
func (m *masks) spots(text string) (at [][2]int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, form := range m.forms {
		for from := 0; ; {
			i := strings.Index(text[from:], form)
			if i < 0 {
				break
			}
			at = append(at, [2]int{from + i, from + i + len(form)})
			from += i + len(form)
		}
	}
	return at
}
