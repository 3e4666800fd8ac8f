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

// minSecret is the length of the shortest value that is looked for in answers. A shorter
// value would be found in every text.
const minSecret = 6

// mask is a value that must not be seen, with the forms in which it may come back. A form
// is found however its characters are escaped (readings.go).
type mask struct {
	name  string
	value string
	forms []form // empty if the value is too short to look for
}

// form is one text that gives a value away.
type form struct {
	text  string // in lower case, because the case of letters changes in names of headers
	blank string // bytes that may stand between the characters of text
}

// newMask returns the mask of a value. Its forms are the value itself, in hex and in
// base64. An escape within base64 cannot be seen without decoding, so the common escapes
// within base64 are forms of their own.
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

// lower returns s with the letters of ASCII in lower case.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

// escaped returns the texts that a value may be in before it is encoded in base64.
func escaped(value string) []string {
	quoted, _ := json.Marshal(value) // a string can always be encoded
	var bare bytes.Buffer
	e := json.NewEncoder(&bare)
	e.SetEscapeHTML(false)
	e.Encode(value) //nolint:errcheck // a Buffer accepts every write, and every string can be encoded
	little, big := make([]byte, 0, 2*len(value)), make([]byte, 0, 2*len(value))
	for _, u := range utf16.Encode([]rune(value)) {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
	}
	all := []string{
		value, inQuotes(string(quoted)), inQuotes(strings.TrimSpace(bare.String())),
		url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value), string(little), string(big),
	}
	for _, s := range all[:3] {
		all = append(all, strings.ReplaceAll(s, "/", `\/`)) // the form in which PHP writes JSON
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func inQuotes(s string) string { return s[1 : len(s)-1] }

// base64Forms returns the forms of a text in base64. There, three bytes make four
// characters, so the text looks different at each of three offsets. Each form contains only
// the characters that depend on nothing but the text.
func base64Forms(s string) []string {
	var forms []string
	for offset := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := alphabet.EncodeToString([]byte(strings.Repeat("\x00", offset) + s))
			// The first characters contain bits of the bytes before the text. The last
			// character, unless the group is full, contains bits of the bytes after it.
			from, to := (offset*8+5)/6, len(text)
			if (offset+len(s))%3 != 0 {
				to--
			}
			forms = append(forms, lower(text[from:max(from, to)]))
		}
	}
	return forms
}

// masker finds values in a text and reads each byte of it once. It is an automaton that is
// in many states at the same time (Thompson, 1968). A state is how much of a form has been
// read, in one way to read the escapes. It is safe for concurrent use.
type masker struct {
	masks []mask
	forms []form
	owner []int       // by form: the index of its mask in masks
	base  []int       // by form: the number of its first state
	size  int         // number of all states
	first [256][]int  // by byte: the forms that begin with it
	high  bool        // whether a form begins with a byte that is not ASCII
	pairs [256]bitset // by byte that may begin a form: the bytes that may follow it
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

// searches bounds the searches that run at the same time, of all doors. A text of nothing
// but escapes takes about 300 ns a byte to search, and gzip makes it a thousand times
// smaller, so a server could keep all processors busy. Half of the processors are left for
// other work, and one box uses at most one of the others (masker.turn).
var searches = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// begin waits until a search may run.
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

// newMasker returns a masker for the masks, or nil if there is nothing to look for.
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

// escapes reports whether c and d may be the beginning of an escape that stands for the
// first byte of a form.
func (m *masker) escapes(c, d byte) bool {
	_, digit := hexDigit(rune(d))
	if opener[c] && c < 0x80 && opener[d] {
		return true // the opener of the escape is escaped itself
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
	// The text may be in another character set than the form.
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

// hit is a value that was found, from start to end; owner is the index of its mask.
type hit struct{ start, end, owner int }

// finder looks for values in a text that comes in pieces.
type finder struct {
	*masker
	pos     int                 // position of the next byte to be read
	gone    int                 // number of bytes that were forgotten
	waiting [maxReading][]state // states, by the position at which they continue
	alive   int                 // number of waiting states
	seen    []int               // by state: 1 + its index in the present list of waiting; used in step
	found   []hit
	ways    *readings
}

func newFinder(m *masker) *finder {
	return &finder{masker: m, seen: make([]int, m.size), ways: new(readings)}
}

// find continues the search in text, and returns how much of it cannot be the beginning of
// a value. More text follows unless final is set. Text that an earlier call has returned
// may be gone from the front, after a call of forget.
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

// skip returns the position of the next byte, at p or after it, that may be the beginning
// of a value.
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

// step moves all states at the present byte to the positions that its readings lead to.
func (f *finder) step() {
	slot := f.pos % maxReading
	here := f.waiting[slot]
	f.waiting[slot] = f.waiting[slot][:0]
	f.alive -= len(here)
	// Of equal states, the one that began first is kept.
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

// advance moves one state over one reading.
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

// forget is called after n bytes were removed from the front of the text.
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

// blot overwrites the values that were found in the part that was read, without a change of
// length.
func (f *finder) blot(text []byte) {
	for _, s := range f.found {
		for i := s.start; i < min(s.end, f.pos); i++ {
			text[i] = '*'
		}
	}
}

// whole finds all values in a text. It returns nil if the text contains no value.
func (m *masker) whole(text []byte) *finder {
	if m == nil || m.skip(text, 0) == len(text) { // true for nearly all texts
		return nil
	}
	f := newFinder(m)
	if f.find(text, true); len(f.found) == 0 {
		return nil
	}
	return f
}

// blot returns s with asterisks in place of values.
func (m *masker) blot(s string) string {
	text := []byte(s)
	if f := m.whole(text); f != nil {
		f.blot(text)
	}
	return string(text)
}

// hide returns s with the names of secrets in place of their values.
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
	err    error // error of from, or errHeld; returned once no clean bytes are left
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

// maxHeld bounds the bytes that are kept because they may be a value: some forms may
// contain blanks, and a server can send any number of blanks. The longest value needs less,
// even if each of its characters is escaped.
const maxHeld = 512 << 10

var errHeld = fmt.Errorf("an answer goes on like the beginning of a secret for more than %d bytes", maxHeld)

// fill reads from once and finds out how much of buf is clean. The possible beginning of a
// value is returned only if the text ends with it.
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
