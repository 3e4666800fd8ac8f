package pin

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/order"
	"belljar.dev/internal/printable"
)

// Kind is the kind of thing that a pin is about.
type Kind string

// The kinds of pins, in the order in which they are listed. If one of the first four is not
// trusted, the server as a whole is held.
const (
	KindRuns         Kind = "runs"         // the command, files and URL that run; has no name
	KindListing      Kind = "listing"      // marks that the server's lists have been seen; has no name
	KindServer       Kind = "server"       // the server's own name; the pin has no name
	KindInstructions Kind = "instructions" // the server's instructions; has no name
	KindTool         Kind = "tool"
	KindPrompt       Kind = "prompt"
	KindTemplate     Kind = "template" // a resource template; its name is the URI template
)

var kinds = []Kind{KindRuns, KindListing, KindServer, KindInstructions, KindTool, KindPrompt, KindTemplate}

// whole reports whether the kind is about the server as a whole.
func (k Kind) whole() bool { return slices.Index(kinds, k) < 4 }

// How is how a pin was made.
type How string

// The ways in which a pin is made, and the marks of definitions that are not trusted.
const (
	First   How = "first"   // trusted on first use
	Decided How = "person"  // a person trusted it
	Import  How = "import"  // imported from a file
	Refused How = "refused" // a person refused it: a mark and not a pin
	offered How = "offered" // a mark: it waits for a person
	gone    How = "gone"    // a mark: it is pinned, and was not served the last time
)

var hows = []How{First, Decided, Import, Refused, offered, gone}

// Digest is the SHA-256 of a definition in its canonical form.
type Digest [32]byte

// String returns the digest as files contain it: sha256: and 64 hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// ParseDigest parses the result of String.
func ParseDigest(text string) (d Digest, err error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok || len(digits) != 2*len(d) {
		return d, fmt.Errorf("%.80q is not sha256: and %d hexadecimal digits", text, 2*len(d))
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return Digest{}, fmt.Errorf("%.80q is not sha256: and %d hexadecimal digits", text, 2*len(d))
	}
	return d, nil
}

// Pin records that a definition is trusted.
type Pin struct {
	Server string // name of the server's entry
	Kind   Kind
	Name   string
	Digest Digest
	Since  time.Time // in whole seconds
	How    How
}

// key identifies what a pin is about, within a server.
type key struct {
	kind Kind
	name string
}

func (p Pin) key() key { return key{p.Kind, p.Name} }

// Known is a file of pins, for judging in mode Strict without a database.
type Known struct{ servers map[string][]Pin }

// NewKnown returns a Known with the given pins, without marks.
func NewKnown(pins []Pin) *Known {
	k := &Known{servers: make(map[string][]Pin)}
	for _, p := range pins {
		if !p.How.mark() {
			p.How = Import
			k.servers[p.Server] = append(k.servers[p.Server], p)
		}
	}
	return k
}

// of returns the pins of a server.
func (k *Known) of(server string) []Pin { return k.servers[server] }

// Bounds of a file of pins.
const (
	maxFile = 16 << 20
	maxPins = 50_000
	maxName = 1024 // bytes of a name
)

// header is the beginning of the first line of a file of pins. The version of the format
// follows it.
const (
	header  = "# belljar known_upstreams "
	version = 1
)

// ErrNewer is the error for a file or record of pins that a newer belljar wrote.
var ErrNewer = errors.New("a newer belljar wrote this")

// Format writes pins as text: a line with the version, then one line for each pin, sorted.
//
//	SERVER KIND NAME DIGEST SINCE HOW
//
// A name with spaces, or with characters that cannot be seen, is quoted like a Go string. A
// pin whose kind has no name has - instead.
func Format(pins []Pin) []byte {
	out := fmt.Appendf(nil, "%s%d\n", header, version)
	for _, p := range sorted(pins) {
		name := word(p.Name)
		if p.Kind.whole() {
			name = "-"
		}
		out = append(out, word(p.Server)+" "...)
		out = append(out, string(p.Kind)+" "+name+" "+p.Digest.String()+" "...)
		out = append(p.Since.UTC().AppendFormat(out, time.RFC3339), " "+string(p.How)+"\n"...)
	}
	return out
}

// sorted returns pins in the order of files.
func sorted(pins []Pin) []Pin {
	all := slices.Clone(pins)
	order.By(all, func(a, b *Pin) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			strings.Compare(a.Name, b.Name), cmp.Compare(slices.Index(hows, a.How), slices.Index(hows, b.How)), bytes.Compare(a.Digest[:], b.Digest[:]))
	})
	return all
}

// word returns a text as one word of a line.
func word(text string) string {
	odd := func(r rune) bool {
		return r == ' ' || r == '"' || r == '#' || r == '\\' || r == utf8.RuneError || !printable.InLine(r)
	}
	if text == "" || text == "-" || strings.ContainsFunc(text, odd) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

// Parse parses pins in the form of Format. Empty lines and comments are skipped; the last
// word of a line may be left out. The error contains the number of the line.
func Parse(text []byte) ([]Pin, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("pins: the text has %d bytes, and %d are read", len(text), maxFile)
	}
	var pins []Pin
	type place struct {
		server string
		key
		mark bool
	}
	seen := make(map[place]struct{})
	n := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		n++
		if number, ok := strings.CutPrefix(line, header); ok {
			if v, err := strconv.Atoi(number); err != nil || v > version {
				return nil, fmt.Errorf("pins: line %d: version %.20q of the format, and this belljar reads version %d: %w", n, number, version, ErrNewer)
			}
			continue
		}
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		p, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("pins: line %d: %w", n, err)
		}
		at := place{p.Server, p.key(), p.How.mark()}
		if _, twice := seen[at]; twice {
			return nil, fmt.Errorf("pins: line %d: %s %s occurs twice", n, p.Kind, word(p.Name))
		}
		seen[at] = struct{}{}
		if pins = append(pins, p); len(pins) > maxPins {
			return nil, fmt.Errorf("pins: line %d: there are more than %d pins", n, maxPins)
		}
	}
	return pins, nil
}

// mark reports whether How is the mark of a definition that is not trusted.
func (h How) mark() bool { return h == Refused || h == offered || h == gone }

func parseLine(line string) (p Pin, err error) {
	var words []string
	for line != "" && err == nil {
		var w string
		w, line, err = cutWord(line)
		words = append(words, w)
	}
	if err != nil {
		return p, err
	}
	if len(words) != 5 && len(words) != 6 {
		return p, fmt.Errorf("it has %d words, want SERVER KIND NAME DIGEST SINCE and perhaps HOW", len(words))
	}
	p = Pin{Server: words[0], Kind: Kind(words[1]), Name: words[2], How: Import}
	if len(words) == 6 {
		p.How = How(words[5])
	}
	if p.Kind.whole() {
		p.Name = ""
	}
	switch {
	case !slices.Contains(kinds, p.Kind):
		return p, fmt.Errorf("%.40q is not a kind of definition", words[1])
	case !slices.Contains(hows, p.How):
		return p, fmt.Errorf("%.40q is not a way to become trusted", words[5])
	case p.Server == "" || len(p.Server) > maxName || len(p.Name) > maxName:
		return p, fmt.Errorf("a name is empty or longer than %d bytes", maxName)
	}
	if p.Digest, err = ParseDigest(words[3]); err != nil {
		return p, err
	}
	if p.Since, err = parseTime(words[4]); err != nil {
		return p, fmt.Errorf("%.40q is not a time like 2026-11-23T18:38:00Z or a date like 2026-11-23", words[4])
	}
	return p, nil
}

func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC().Truncate(time.Second), nil
	}
	return time.Parse(time.DateOnly, text)
}

// cutWord returns the first word of a line, unquoted, and the rest of the line.
func cutWord(line string) (word, rest string, err error) {
	if line[0] != '"' {
		word, rest, _ = strings.Cut(line, " ")
		return word, strings.TrimLeft(rest, " "), nil
	}
	quoted, err := strconv.QuotedPrefix(line)
	if err == nil {
		word, err = strconv.Unquote(quoted)
	}
	if err != nil {
		return "", "", errors.New("a quoted name has no closing quote, or contains an invalid escape")
	}
	return word, strings.TrimLeft(line[len(quoted):], " "), nil
}
