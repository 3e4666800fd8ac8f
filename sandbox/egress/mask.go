package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"

	"belljar.dev/internal/order"
)

// minSecret is the length below which a value is not looked for in what comes
// back: it would be found in every text.
const minSecret = 6

// mask is a value that must not be seen, in the forms in which it may come
// back. A form is found however its characters are escaped (readings.go).
type mask struct {
	name  string
	value string
	forms []form // none for a value too short to look for
}

// form is one text that gives a value away.
type form struct {
	text  string // in small letters: names of headers change in that
	blank string // what may stand between its characters
}

// newMask makes the forms of a value: itself, in hex and in base64. Escapes
// within base64 hide from whoever does not decode it, so that there the common
// ones are forms of their own.
func newMask(name, value string) mask {
	m := mask{name: name, value: value}
	m.addForms(value)
	// A server reads Basic credentials (RFC 7617) and may show what is in them.
	if text, err := base64.StdEncoding.DecodeString(value); err == nil {
		if _, password, ok := strings.Cut(string(text), ":"); ok && checkValue(password) == nil {
			m.addForms(password)
		}
	}
	return m
}

func (m *mask) addForms(value string) {
	if len(value) < minSecret {
		return
	}
	// Between the bytes of UTF-16 and UTF-32 are zeroes.
	m.forms = append(m.forms,
		form{text: lower(value), blank: "\x00"},
		form{text: hex.EncodeToString([]byte(value)), blank: " :-\r\n"})
	var texts []string
	for _, inner := range escaped(value) {
		texts = append(texts, base64Forms(inner)...)
	}
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		if len(text) >= minSecret {
			m.forms = append(m.forms, form{text: text, blank: "\r\n"})
		}
	}
}

// lower is s with the letters of ASCII in small.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

// escaped are the texts that a value may be in before they are put in base64.
func escaped(value string) []string {
	quoted, _ := json.Marshal(value) // a string can be
	var bare bytes.Buffer
	e := json.NewEncoder(&bare)
	e.SetEscapeHTML(false)
	e.Encode(value) //nolint:errcheck // a Buffer takes all, and a string can be
	little, big := make([]byte, 0, 2*len(value)), make([]byte, 0, 2*len(value))
	for _, u := range utf16.Encode([]rune(value)) {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
	}
	all := []string{
		value, inQuotes(string(quoted)), inQuotes(strings.TrimSpace(bare.String())),
		url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value), string(little), string(big),
	}
	for _, s := range all[:3] {
		all = append(all, strings.ReplaceAll(s, "/", `\/`)) // as PHP writes JSON
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func inQuotes(s string) string { return s[1 : len(s)-1] }

// base64Forms is a text in base64, in which three bytes make four characters: so
// it looks different at each of three offsets. Of each this is the part that
// only the text makes.
func base64Forms(s string) []string {
	var forms []string
	for offset := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := alphabet.EncodeToString([]byte(strings.Repeat("\x00", offset) + s))
			// The first characters hold bits of what stands before, the last
			// one, unless the group is full, of what comes behind.
			from, to := (offset*8+5)/6, len(text)
			if (offset+len(s))%3 != 0 {
				to--
			}
			forms = append(forms, lower(text[from:max(from, to)]))
		}
	}
	return forms
}

// masker finds values in a text and reads each byte of it once. It is an
// automaton with many states at once (Thompson, 1968). A state is how much of a form
// has been read, by one way to read the escapes. It can be used by many at
// once.
type masker struct {
	masks []mask
	forms []form
	owner []int       // of a form, in masks
	base  []int       // of a form: the number of its first state
	size  int         // of all states
	first [256][]int  // forms that begin with a byte
	high  bool        // some form begins with a byte that ASCII does not have
	pairs [256]bitset // what may follow a byte that may be the beginning of a form
	turn  sync.Locker // held while a text is searched
}

// checkValue refuses a value that is not valid in a header (RFC 9110, 5.5): a
// line break would begin another header.
func checkValue(text string) error {
	switch {
	case text == "":
		return errors.New("its value is empty")
	case len(text) > maxValue:
		return fmt.Errorf("its value has %d bytes; a header takes at most %d", len(text), maxValue)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return errors.New("its value contains a line break or another control character, which is not allowed in a header")
		}
	}
	return nil
}

// searches are the searches that run at once, of all doors. A text of nothing but
// escapes takes some 300 ns a byte, and a thousandth of its size in gzip: so a
// server could have all processors busy. Half of them are left for other work, and
// of the others a box has one at most (masker.turn).
var searches = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// begin waits until a search may go on.
func (m *masker) begin() {
	m.turn.Lock()
	searches <- struct{}{}
}

func (m *masker) end() {
	<-searches
	m.turn.Unlock()
}

type bitset [4]uint64

func (b *bitset) set(c byte)      { b[c>>6] |= 1 << (c & 63) }
func (b *bitset) has(c byte) bool { return b[c>>6]&(1<<(c&63)) != 0 }

// newMasker is nil where there is nothing to look for.
func newMasker(masks []mask) *masker {
	m := &masker{masks: masks, turn: new(sync.Mutex)}
	for i, k := range masks {
		for _, f := range k.forms {
			m.forms, m.owner, m.base = append(m.forms, f), append(m.owner, i), append(m.base, m.size)
			m.size += len(f.text)
		}
	}
	if m.size == 0 {
		return nil
	}
	for i, f := range m.forms {
		m.high = m.high || f.text[0] >= 0x80
		for _, c := range cases(f.text[0]) {
			m.first[c] = append(m.first[c], i)
			for d := range 256 {
				if opener[d] || strings.IndexByte(f.blank, byte(d)) >= 0 || d >= 0x80 && f.text[1] >= 0x80 {
					m.pairs[c].set(byte(d))
				}
			}
			for _, d := range cases(f.text[1]) {
				m.pairs[c].set(d)
			}
		}
	}
	for c := range 256 {
		for d := range 256 {
			if m.escapes(byte(c), byte(d)) {
				m.pairs[c].set(byte(d))
			}
		}
	}
	return m
}

// escapes reports whether two bytes may be the beginning of an escape of what a
// form begins with.
func (m *masker) escapes(c, d byte) bool {
	_, digit := hexDigit(rune(d))
	if opener[c] && c < 0x80 && opener[d] {
		return true // of one that is escaped itself
	}
	switch c {
	case '\\':
		return true
	case '&':
		return d == '#' || 'a' <= d|0x20 && d|0x20 <= 'z'
	case '%', '=':
		return digit || c == '%' && d == 'u'
	case '+':
		return len(m.first[' ']) > 0
	}
	// One character set for another.
	return c >= 0x80 && m.high
}

func cases(c byte) []byte {
	if 'a' <= c && c <= 'z' {
		return []byte{c, c &^ 0x20}
	}
	return []byte{c}
}

// state is how far a form was read, and where it began.
type state struct{ form, at, start int }

// hit is a value that was found, from start to end.
type hit struct{ start, end, owner int }

// finder looks for values in a text that comes in pieces.
type finder struct {
	*masker
	pos     int                 // of the next byte to be read
	gone    int                 // bytes that were forgotten
	waiting [maxReading][]state // by the position at which they go on
	alive   int                 // how many wait
	seen    []int               // by state: 1 + the index in waiting
	found   []hit
	ways    *readings
}

func newFinder(m *masker) *finder {
	return &finder{masker: m, seen: make([]int, m.size), ways: new(readings)}
}

// find reads on in text, which goes on where final is not set, and returns how much
// of it cannot be the beginning of a value. Text that was returned before may be
// gone from the front: then forget was called.
func (f *finder) find(text []byte, final bool) int {
	searching := false // most texts have nothing to be searched
	defer func() {
		if searching {
			f.end()
		}
	}()
	for ; f.pos < len(text); f.pos++ {
		if f.alive == 0 {
			if f.pos = f.skip(text, f.pos); f.pos == len(text) {
				break
			}
		}
		if !searching {
			f.begin()
			searching = true
		}
		rest := text[f.pos:min(len(text), f.pos+maxReading-1)]
		f.ways.read(rest, f.gone+f.pos)
		if f.ways.more && !final && len(rest) < maxReading-1 {
			break
		}
		f.step()
	}
	held := f.pos
	for i, list := range f.waiting {
		for _, s := range list {
			// A form does not delay the end of a line if little of it was read.
			const begun = 4
			blank := i == f.pos%maxReading && s.at < begun && f.pos > 0 && strings.IndexByte(f.forms[s.form].blank, text[f.pos-1]) >= 0
			if !blank {
				held = min(held, s.start)
			}
		}
	}
	return max(held, 0)
}

// skip is the next byte at or behind p that may be the beginning of a value.
func (m *masker) skip(text []byte, p int) int {
	last := len(text) - 1
	for p < last && !m.pairs[text[p]].has(text[p+1]) {
		p++
	}
	if p == last && m.pairs[text[p]] == (bitset{}) {
		p++
	}
	return p
}

// step takes all states at one byte to where its readings lead.
func (f *finder) step() {
	slot := f.pos % maxReading
	here := f.waiting[slot]
	f.waiting[slot] = f.waiting[slot][:0]
	f.alive -= len(here)
	// Among equal ones, the one that began first says most.
	alike := here[:0]
	for _, s := range here {
		n := f.base[s.form] + s.at
		if i := f.seen[n] - 1; i >= 0 {
			alike[i].start = min(alike[i].start, s.start)
			continue
		}
		alike = append(alike, s)
		f.seen[n] = len(alike)
	}
	for _, s := range alike {
		f.seen[f.base[s.form]+s.at] = 0
	}
	for i := range f.ways.size {
		r := &f.ways.list[i]
		for _, s := range alike {
			f.advance(s, r)
		}
		if r.size > 0 {
			for _, form := range f.first[r.text[0]] {
				f.advance(state{form: form, start: f.pos}, r)
			}
		}
	}
}

// advance takes one state over one reading.
func (f *finder) advance(s state, r *reading) {
	form := &f.forms[s.form]
	for _, c := range r.text[:r.size] {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		switch {
		case form.text[s.at] == c:
			s.at++
		case s.at == 0 || strings.IndexByte(form.blank, c) < 0:
			return
		}
		if s.at == len(form.text) {
			f.found = append(f.found, hit{max(s.start, 0), f.pos + r.n, f.owner[s.form]})
			return
		}
	}
	to := (f.pos + r.n) % maxReading
	f.waiting[to] = append(f.waiting[to], s)
	f.alive++
}

// forget says that n bytes at the front of the text are gone.
func (f *finder) forget(n int) {
	var moved [maxReading][]state
	for i, list := range f.waiting {
		for j := range list {
			list[j].start -= n
		}
		moved[((i-n)%maxReading+maxReading)%maxReading] = list
	}
	f.waiting = moved
	f.pos -= n
	f.gone += n
	kept := f.found[:0]
	for _, s := range f.found {
		if s.end > n {
			kept = append(kept, hit{max(s.start-n, 0), s.end - n, s.owner})
		}
	}
	f.found = kept
}

// blot overwrites what was found in what was read, so that no length changes.
func (f *finder) blot(text []byte) {
	for _, s := range f.found {
		for i := s.start; i < min(s.end, f.pos); i++ {
			text[i] = '*'
		}
	}
}

// whole finds all values in a text.
func (m *masker) whole(text []byte) *finder {
	if m == nil || m.skip(text, 0) == len(text) { // nearly always
		return nil
	}
	f := newFinder(m)
	if f.find(text, true); len(f.found) == 0 {
		return nil
	}
	return f
}

// blot is s with asterisks in place of values.
func (m *masker) blot(s string) string {
	text := []byte(s)
	if f := m.whole(text); f != nil {
		f.blot(text)
	}
	return string(text)
}

// hide is s with the names of secrets in place of their values.
func (m *masker) hide(s string) string {
	f := m.whole([]byte(s))
	if f == nil {
		return s
	}
	order.By(f.found, func(a, b *hit) int { return a.start - b.start })
	var clean strings.Builder
	at := 0
	for _, v := range f.found {
		if v.start >= at {
			clean.WriteString(s[at:v.start] + "[secret " + m.masks[v.owner].name + "]")
		}
		at = max(at, min(v.end, len(s)))
	}
	return clean.String() + s[at:]
}

// masked is a reader that blots values out of a text. It passes bytes on as soon
// as they cannot be the beginning of a value.
type masked struct {
	from   io.Reader
	finder *finder
	buf    []byte // clean up to ready; the rest may be the beginning of a value
	ready  int
	err    error // of from, given once buf is empty
}

func newMasked(from io.Reader, m *masker) *masked {
	return &masked{from: from, finder: newFinder(m)}
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
	m.finder.forget(n)
	m.ready -= n
	return n, nil
}

// maxHeld bounds the bytes that are kept because they may be a value: some forms
// have blanks in them, and a server can send any number of blanks. The longest
// value needs less, even if each of its characters is escaped.
const maxHeld = 512 << 10

var errHeld = fmt.Errorf("an answer goes on like the beginning of a secret for more than %d bytes", maxHeld)

// fill reads once and sees how much of buf is clean. The possible beginning of a
// value comes out only if the text ends with it.
func (m *masked) fill() {
	const step = 16 << 10
	used := len(m.buf)
	m.buf = slices.Grow(m.buf, step)
	n, err := m.from.Read(m.buf[used : used+step])
	m.buf, m.err = m.buf[:used+n], err
	m.ready = m.finder.find(m.buf, errors.Is(err, io.EOF))
	if errors.Is(err, io.EOF) {
		m.ready = len(m.buf)
	}
	if len(m.buf)-m.ready > maxHeld {
		m.err = errHeld
	}
	m.finder.blot(m.buf)
}
