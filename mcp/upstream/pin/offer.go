package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"belljar.dev/mcp/wire"
)

// Bounds of the definitions of a server.
const (
	MaxDefinitions = 10_000    // definitions of all kinds together
	MaxDefinition  = 512 << 10 // bytes of one definition
	maxServed      = 32 << 20  // bytes of all definitions
)

// Offer contains what a server is about to run, or what it serves, at one time.
type Offer struct {
	Runs Runs
	// Listing contains what the server serves. It is nil before the server has been
	// started: then only Runs is judged.
	Listing *Listing
}

// Runs describes what runs. A member that does not apply is empty. All members have
// placeholders for secrets: a pin must neither keep a secret nor change with it.
type Runs struct {
	Command []string `json:"command,omitempty"` // the program and its arguments, after expansion
	Env     []string `json:"env,omitempty"`     // NAME=VALUE of the entry, sorted
	File    string   `json:"file,omitempty"`    // digest of the program's file
	Lock    string   `json:"lock,omitempty"`    // integrity of the packages that the launcher installed
	Image   string   `json:"image,omitempty"`   // digest of the image
	URL     string   `json:"url,omitempty"`     // URL of a remote server
	SPKI    string   `json:"spki,omitempty"`    // digest of a remote server's public key, if that is pinned
}

// Listing contains everything that a server states about itself. Tools, prompts and
// templates contain all pages of each list, unchanged.
type Listing struct {
	Server       string // serverInfo.name
	Instructions string
	Tools        []json.RawMessage
	Prompts      []json.RawMessage
	Templates    []json.RawMessage
}

// served is one definition that a server serves.
type served struct {
	key
	at     int // index in its list
	digest Digest
	text   []byte // canonical form of an array with the kind and the definition
	fault  string // why the definition cannot be compared; it then has no digest
}

// takeApart returns the definitions of an offer, and how many definitions are beyond the
// bound. If several definitions have the same name, none of them can be compared: the
// server would choose at each call which of them is called.
func takeApart(o Offer) (all []served, cut int) {
	var c canon
	if o.Listing == nil {
		return []served{ofRuns(&c, o.Runs)}, 0
	}
	all = make([]served, 0, 4+min(MaxDefinitions, len(o.Listing.Tools)+len(o.Listing.Prompts)+len(o.Listing.Templates)))
	all = append(all, ofRuns(&c, o.Runs), ofText(&c, KindListing, "seen"),
		ofText(&c, KindServer, o.Listing.Server), ofText(&c, KindInstructions, o.Listing.Instructions))
	left, size := MaxDefinitions, 0
	named := make(map[key]int)
	for _, list := range []struct {
		kind   Kind
		member string
		raw    []json.RawMessage
	}{{KindTool, "name", o.Listing.Tools}, {KindPrompt, "name", o.Listing.Prompts}, {KindTemplate, "uriTemplate", o.Listing.Templates}} {
		cut += max(0, len(list.raw)-left)
		list.raw = list.raw[:min(left, len(list.raw))]
		left -= len(list.raw)
		for i, raw := range list.raw {
			d := served{key: key{kind: list.kind}, fault: fmt.Sprintf("the server's definitions have more than %d MiB", maxServed>>20)}
			if size += len(raw); size <= maxServed {
				d = ofDefinition(&c, list.kind, list.member, raw)
			}
			d.at = i
			if d.name != "" {
				named[d.key]++
			}
			all = append(all, d)
		}
	}
	for i := range all {
		if n := named[all[i].key]; n > 1 {
			all[i].fault = fmt.Sprintf("the server offers %d definitions with this name, so it is not certain which of them a call would reach", n)
		}
	}
	return all, cut
}

func ofRuns(c *canon, r Runs) served {
	d := served{key: key{kind: KindRuns}}
	for _, text := range slices.Concat(r.Command, r.Env, []string{r.File, r.Lock, r.Image, r.URL, r.SPKI}) {
		if !utf8.ValidString(text) {
			d.fault = "the description of what runs is not UTF-8"
			return d
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		d.fault = "the description of what runs cannot be encoded: " + err.Error()
		return d
	}
	d.seal(c, raw)
	return d
}

func ofText(c *canon, kind Kind, text string) served {
	d := served{key: key{kind: kind}}
	if !utf8.ValidString(text) {
		d.fault = errUTF8.Error()
		return d
	}
	d.seal(c, appendText(nil, []byte(text)))
	return d
}

// ofDefinition returns a definition whose name is in one of its members.
func ofDefinition(c *canon, kind Kind, member string, raw json.RawMessage) served {
	d := served{key: key{kind: kind}}
	d.seal(c, raw)
	if d.text == nil {
		d.name = nameOf(raw, member)
		return d
	}
	if raw = bytes.TrimSpace(raw); !wire.IsObject(raw) {
		d.fault = "the definition is not an object"
		return d
	}
	// In the original text the name is usually first; in the canonical text it comes late.
	name := wire.Member(raw, member)
	if len(name) < 3 || name[0] != '"' {
		d.fault = fmt.Sprintf("the definition has no %s that is a text of 1 to %d bytes", member, maxName)
		return d
	}
	d.name = string(normal([]byte(wire.Unquote(name)), false))
	if len(d.name) > maxName-2 { // minus two bytes for its quotes
		d.name, d.fault = "", fmt.Sprintf("the definition has no %s that is a text of 1 to %d bytes", member, maxName)
	}
	return d
}

// nameOf returns the name of a definition that cannot be compared, for the text about it;
// empty if no name is found.
func nameOf(raw json.RawMessage, member string) (name string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members[member], &name) != nil || len(name) > maxName {
		return ""
	}
	return string(normal([]byte(name), false))
}

// seal sets the canonical text and the digest of a definition, or its fault.
func (d *served) seal(c *canon, raw []byte) {
	if len(raw) > MaxDefinition {
		d.fault = fmt.Sprintf("the definition has %d bytes, and at most %d are accepted", len(raw), MaxDefinition)
		return
	}
	text := make([]byte, 0, len(raw)+len(d.kind)+16)
	text = append(appendText(append(text, '['), []byte(d.kind)), ',')
	text, err := c.append(text, raw)
	if err != nil {
		d.fault = "the definition cannot be compared: " + err.Error()
		return
	}
	d.text = append(text, ']')
	d.digest = sha256.Sum256(d.text)
}

// unwrap returns the definition in a canonical text, without the kind, which contains no
// comma.
func unwrap(text []byte) []byte {
	at := bytes.IndexByte(text, ',')
	if at < 0 {
		return nil
	}
	return text[at+1 : len(text)-1]
}

// body returns a definition without its name. Two definitions with the same body count as
// one that was renamed. It is empty for kinds without names.
func body(text []byte) string {
	object := unwrap(text)
	if !wire.IsObject(object) {
		return ""
	}
	var rest []byte
	wire.Members(object, func(name, value []byte) bool {
		if text := string(name); text != "name" && text != "uriTemplate" {
			rest = append(append(append(appendText(rest, name), ':'), value...), ',')
		}
		return true
	})
	return string(rest)
}

// rawDigest returns a digest of the bytes of an offer.
func rawDigest(o Offer) (Digest, error) {
	h := sha256.New()
	var size [8]byte
	count := func(n int) {
		binary.BigEndian.PutUint64(size[:], uint64(n))
		h.Write(size[:])
	}
	put := func(text []byte) {
		count(len(text))
		h.Write(text)
	}
	runs, err := json.Marshal(o.Runs)
	if err != nil {
		return Digest{}, errors.New("the description of what runs cannot be encoded")
	}
	put(runs)
	if l := o.Listing; l != nil {
		put([]byte(l.Server))
		put([]byte(l.Instructions))
		for _, list := range [][]json.RawMessage{l.Tools, l.Prompts, l.Templates} {
			count(len(list))
			for _, raw := range list {
				put(raw)
			}
		}
	}
	return Digest(h.Sum(nil)), nil
}
