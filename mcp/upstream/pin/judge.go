package pin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/printable"
)

// Mode determines how a definition becomes trusted.
type Mode int

// The modes. The zero Mode is the strictest.
const (
	Strict Mode = iota // only imported definitions are trusted
	Ask                // only definitions that a person has approved are trusted
	// definitions at first contact are trusted, unless the scan finds something; a person
	// decides about the others
	TOFU
	Off // all definitions are trusted, and nothing is compared or kept
)

var modes = []string{"strict", "ask", "tofu", "off"}

// String returns the name of a mode in policies.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modes) {
		return fmt.Sprintf("mode %d", int(m))
	}
	return modes[m]
}

// ParseMode parses the name of a mode.
func ParseMode(text string) (Mode, error) {
	if i := slices.Index(modes, text); i >= 0 {
		return Mode(i), nil
	}
	return Strict, fmt.Errorf("%.40q is not a mode of pins, which are %s", text, strings.Join(modes, ", "))
}

// State is the result of comparing a definition.
type State string

// The states of a definition.
const (
	Pinned  State = "pinned"  // the definition is the trusted one
	New     State = "new"     // no definition of this name was trusted before
	Changed State = "changed" // another definition of this name was trusted
	Removed State = "removed" // the definition was trusted, and is not served
	Held    State = "held"    // the definition cannot be compared, a person refused it, or its server is held
)

// Item is one definition of a verdict.
type Item struct {
	Kind   Kind
	Name   string // name in normal form C; the definition has the server's own spelling
	At     int    // index in its list of the Listing; -1 if it is not served
	State  State
	Digest Digest    // digest of the served definition; zero if it cannot be compared or is not served
	Was    Digest    // digest of the trusted definition; zero if none was trusted
	Since  time.Time // time when Was was trusted
	// Pair is the other name of a definition that was renamed: for a new definition the
	// name that is gone, and for one that is gone the new name.
	Pair     string
	Findings []Finding // findings of the scan at first contact; a Question always has them
	// Why is the reason why the definition is neither listed nor called; empty if it may be
	// both. A definition that is not served has no reason.
	Why string
}

// Verdict is the result of Judge: what of a server may be listed and called at one time. It
// does not change, so it may be shared. The zero Verdict offers nothing.
type Verdict struct {
	Mode  Mode
	Items []Item // served definitions in their order, then the definitions that are not served any more
	// Held is the reason why nothing of the server may be listed, called or started; empty
	// if the server is not held.
	Held string
	// Notes are texts for the operator, for example that pins are off.
	Notes []string
	// Err is the error of reading or writing the pins; if it is set, everything is held.
	Err error

	index map[key]int
}

// Offered returns the item of a definition that may be listed and called. It returns false
// for any other definition.
func (v *Verdict) Offered(kind Kind, name string) (Item, bool) {
	i, ok := v.index[key{kind, string(normal([]byte(name), false))}]
	if !ok || v.Held != "" || v.Items[i].Why != "" || v.Items[i].At < 0 {
		return Item{}, false
	}
	return v.Items[i], true
}

// Why returns why a definition is neither listed nor called; empty for a definition that
// may be both. For an unknown definition it returns Held.
func (v *Verdict) Why(kind Kind, name string) string {
	if i, ok := v.index[key{kind, string(normal([]byte(name), false))}]; ok {
		return v.Items[i].Why
	}
	return v.Held
}

// record contains the pins and marks of a server.
type record struct {
	trusted map[key]Pin
	refused map[key]Pin // definitions that a person refused
	// The definitions that waited for a person, and those that were gone, when the server
	// was last judged. marked reports that both maps are complete: the lists were judged,
	// and nothing was imported since.
	offered, gone map[key]Pin
	marked        bool
}

// recordOf sorts the pins and marks of a file into a record.
func recordOf(lines []Pin) record {
	r := record{make(map[key]Pin, len(lines)), make(map[key]Pin), make(map[key]Pin), make(map[key]Pin), false}
	for _, p := range lines {
		switch p.How {
		case Refused:
			r.refused[p.key()] = p
		case offered:
			r.offered[p.key()] = p
		case gone:
			r.gone[p.key()] = p
		case First, Decided, Import:
			r.trusted[p.key()] = p
		}
	}
	return r
}

// lines returns the pins of several parts of a record, sorted.
func lines(parts ...map[key]Pin) (all []Pin) {
	for _, part := range parts {
		all = slices.AppendSeq(all, maps.Values(part))
	}
	return sorted(all)
}

// strictly returns the record with imported pins only.
func (r record) strictly() record {
	r.trusted = maps.Clone(r.trusted)
	maps.DeleteFunc(r.trusted, func(_ key, p Pin) bool { return p.How != Import })
	return r
}

// judge compares what is served with a record. added contains the pins that first use adds.
func judge(server string, rules Rules, r record, all []served, listed bool, now time.Time) (v *Verdict, added []Pin) {
	v = &Verdict{Mode: rules.Mode, Items: make([]Item, 0, len(all)), index: make(map[key]int, len(all))}
	switch {
	case rules.Mode == Strict && rules.Known != nil:
		r = recordOf(rules.Known.of(server))
	case rules.Mode == Strict:
		r = r.strictly()
	}
	first, seen := r.trusted[key{kind: KindListing}]
	var look looker
	if rules.Mode == TOFU && !seen {
		look = looking(rules.Others, all)
	}
	for _, d := range all {
		item := Item{Kind: d.kind, Name: d.name, At: d.at, Digest: d.digest}
		pin, known := r.trusted[d.key]
		if known {
			item.Was, item.Since = pin.Digest, pin.Since
		}
		no, denied := r.refused[d.key]
		switch {
		case d.fault != "":
			item.State, item.Why = Held, d.fault
		case rules.Mode == Off:
			item.State = New
		case known && pin.Digest == d.digest:
			item.State = Pinned
		case d.kind == KindListing: // not a definition: the pin of this kind marks the first contact
			if rules.Mode == TOFU {
				added = append(added, Pin{server, d.kind, "", d.digest, now, First})
			}
		case denied && no.Digest == d.digest:
			item.State, item.Why = Held, "a person refused it on "+no.Since.Format(time.DateOnly)
		case known:
			item.State, item.Why = Changed, "it has changed since it was trusted on "+pin.Since.Format(time.DateOnly)
		default:
			item.State = New
			waits, there := r.offered[d.key]
			switch {
			case rules.Mode == Strict:
				item.Why = "it is not among the pins that were imported"
			case rules.Mode == Ask:
				item.Why = "nobody has decided about it yet"
			case seen && d.kind == KindRuns:
				item.Why = "the server has pins, but none of them covers what runs"
			case seen && there && waits.Digest == d.digest && !waits.Since.After(first.Since):
				item.Why = "it was not trusted at first contact, and nobody has decided about it yet"
			case seen:
				item.Why = "the server has added it since the first contact"
			default:
				item.Findings = look.at(d)
			}
			if len(item.Findings) > 0 {
				item.Why = "the scan found something at first contact: " + item.Findings[0].String()
			}
			if item.Why == "" {
				item.State, item.Was, item.Since = Pinned, d.digest, now
				added = append(added, Pin{server, d.kind, d.name, d.digest, now, First})
			}
		}
		if d.kind == KindListing {
			continue
		}
		if item.Why != "" && d.kind.whole() {
			v.Held = fmt.Sprintf("%s of the server %s is held: %s", d.kind.spoken(), word(server), item.Why)
		}
		v.add(item)
	}
	if rules.Mode == Off {
		v.Notes = append(v.Notes, fmt.Sprintf("pins of the server %s are off: its changes are neither noticed nor held", word(server)))
	} else if listed {
		missing := maps.Clone(r.trusted)
		maps.DeleteFunc(missing, func(k key, _ Pin) bool {
			_, there := v.index[k]
			return there || k.kind == KindListing
		})
		for _, p := range lines(missing) {
			v.add(Item{Kind: p.Kind, Name: p.Name, At: -1, State: Removed, Was: p.Digest, Since: p.Since})
		}
	}
	v.close(server)
	return v, added
}

// add appends an item. If several items have the same name, all are kept, and the index
// contains the last one.
func (v *Verdict) add(item Item) {
	v.index[key{item.Kind, item.Name}] = len(v.Items)
	v.Items = append(v.Items, item)
}

// close completes the reasons: if the server is held, all its definitions are held, and
// each reason says what a person can do.
func (v *Verdict) close(server string) {
	help := "; " + advice(v.Mode, server)
	if v.Held != "" {
		v.Held += help
	}
	for i := range v.Items {
		item := &v.Items[i]
		switch {
		case item.At < 0:
		case v.Held != "" && item.Why == "":
			item.State, item.Why = Held, v.Held
		case item.Why != "" && item.Digest != (Digest{}):
			item.Why += help
		}
	}
}

// advice returns a text about what people can do about a held definition.
func advice(mode Mode, server string) string {
	if mode == Strict {
		return "its pins are strict: review the change and import it with `belljar upstream pins import FILE`"
	}
	return fmt.Sprintf("a person can look at the change with `belljar upstream pins diff %s` and decide with `belljar upstream approve %[1]s`", printable.Operand(server))
}

// spoken returns a kind that is about the whole server as the subject of a sentence.
func (k Kind) spoken() string {
	switch k {
	case KindRuns:
		return "what runs"
	case KindServer:
		return "the name"
	case KindInstructions:
		return "the text of instructions"
	case KindListing, KindTool, KindPrompt, KindTemplate:
	}
	return "the " + string(k)
}

// heldBy returns the verdict for pins that could not be read or written.
func heldBy(mode Mode, err error) *Verdict {
	return &Verdict{Mode: mode, Err: err, Held: "the pins of trusted definitions cannot be used, so everything from other people's servers is held: " + err.Error()}
}

// pair finds definitions that were renamed: a new definition and one that is gone, with the
// same text except for the name. text returns the canonical text of a digest, or nil.
func (v *Verdict) pair(text func(Digest) []byte) {
	type what struct {
		kind Kind
		body string
	}
	free := make(map[what][]int) // indexes of new definitions
	bodyOf := func(d Digest) string {
		if text := text(d); text != nil {
			return body(text)
		}
		return ""
	}
	isGone := func(item Item) bool { return item.State == Removed }
	if !slices.ContainsFunc(v.Items, isGone) {
		return
	}
	for i, item := range v.Items {
		if item.State == New && item.Name != "" {
			if b := bodyOf(item.Digest); b != "" {
				free[what{item.Kind, b}] = append(free[what{item.Kind, b}], i)
			}
		}
	}
	if len(free) == 0 {
		return
	}
	for i, item := range v.Items {
		if !isGone(item) {
			continue
		}
		at := what{item.Kind, bodyOf(item.Was)}
		if others := free[at]; len(others) > 0 {
			j := others[0]
			free[at] = others[1:]
			v.Items[i].Pair, v.Items[j].Pair = v.Items[j].Name, v.Items[i].Name
			v.Items[j].Why = fmt.Sprintf("it has been renamed from %s: ", word(item.Name)) + v.Items[j].Why
		}
	}
}

// mark returns a record with the marks of a verdict, for people in other processes. A mark
// that existed before keeps its time. A verdict from before the first list only has
// KindRuns, so the other marks stay.
func (v *Verdict) mark(server string, r record, listed bool, now time.Time) record {
	before := r
	r.offered, r.gone = make(map[key]Pin), make(map[key]Pin)
	if !listed {
		r.offered, r.gone = maps.Clone(before.offered), maps.Clone(before.gone)
		delete(r.offered, key{kind: KindRuns})
	}
	for _, item := range v.Items {
		p := Pin{Server: server, Kind: item.Kind, Name: item.Name, Digest: item.Digest, Since: now, How: offered}
		marks, old := r.offered, before.offered
		switch {
		case item.At < 0:
			p.Digest, p.How = item.Was, gone
			marks, old = r.gone, before.gone
		case item.Digest == (Digest{}) || item.Digest == item.Was:
			continue
		}
		if old, there := old[p.key()]; there && old.Digest == p.Digest {
			p.Since = old.Since
		}
		marks[p.key()] = p
	}
	r.marked = r.marked || listed
	return r
}

// sameMarks reports whether two records have the same marks.
func sameMarks(a, b record) bool {
	same := func(p, q Pin) bool { return p.Digest == q.Digest }
	return a.marked == b.marked && maps.EqualFunc(a.offered, b.offered, same) && maps.EqualFunc(a.gone, b.gone, same)
}
