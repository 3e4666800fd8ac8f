package pin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/printable"
)

// Mode says how a definition becomes trusted.
type Mode int

// The modes. The zero Mode is the strictest.
const (
	Strict Mode = iota // only what was imported
	Ask                // only what a person has decided
	TOFU               // what a server serves at first contact, unless the scan found something; a person decides about the rest
	Off                // everything, and nothing is compared or kept
)

var modes = []string{"strict", "ask", "tofu", "off"}

// String is the name of a mode in policies.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modes) {
		return fmt.Sprintf("mode %d", int(m))
	}
	return modes[m]
}

// ParseMode reads the name of a mode.
func ParseMode(text string) (Mode, error) {
	if i := slices.Index(modes, text); i >= 0 {
		return Mode(i), nil
	}
	return Strict, fmt.Errorf("%.40q is not a mode of pins, which are %s", text, strings.Join(modes, ", "))
}

// State is what became of the comparison of a definition.
type State string

// The states of a definition.
const (
	Pinned  State = "pinned"  // it is what was trusted
	New     State = "new"     // nothing of its name was trusted before
	Changed State = "changed" // something else of its name was trusted
	Removed State = "removed" // it was trusted, and is not served
	Held    State = "held"    // it cannot be compared, a person refused it, or its server is held
)

// Item is one definition of a verdict.
type Item struct {
	Kind   Kind
	Name   string // in normal form C; the server's own spelling is in the definition
	At     int    // in its list of the Listing; -1 if it is not served
	State  State
	Digest Digest    // of what is served; zero if it cannot be compared or is not served
	Was    Digest    // of what was trusted; zero if nothing was
	Since  time.Time // when Was was trusted
	// Pair is the other name of a definition that was renamed: the one that is gone of a new
	// one, the new one of one that is gone.
	Pair     string
	Findings []Finding // of the scan at first contact; a Question always has them
	// Why says why the definition is neither listed nor called; empty if it may be both. A
	// definition that is not served has no reason.
	Why string
}

// Verdict is what may be listed and called of a server at one time. It does not change, so
// it may be shared. The zero Verdict offers nothing.
type Verdict struct {
	Mode  Mode
	Items []Item // what is served, in its order; then what is not served any more
	// Held says why nothing of the server may be listed, called or started; empty if the
	// server is not held.
	Held string
	// Notes are for the operator, for example that pins are off.
	Notes []string
	// Err is why the pins could not be read; then everything is held.
	Err error

	index map[key]int
}

// Offered returns the item of a definition that may be listed and called, and false for all
// others.
func (v *Verdict) Offered(kind Kind, name string) (Item, bool) {
	i, ok := v.index[key{kind, string(normal([]byte(name), false))}]
	if !ok || v.Held != "" || v.Items[i].Why != "" || v.Items[i].At < 0 {
		return Item{}, false
	}
	return v.Items[i], true
}

// Why returns why a definition is neither listed nor called; empty for one that may be both,
// and for one that is unknown.
func (v *Verdict) Why(kind Kind, name string) string {
	if i, ok := v.index[key{kind, string(normal([]byte(name), false))}]; ok {
		return v.Items[i].Why
	}
	return v.Held
}

// record is what is kept of a server.
type record struct {
	trusted map[key]Pin
	refused map[key]Pin // by a person
	// The definitions that waited for a person and those that were gone when the server was
	// judged last. marked says that both are complete: nothing was imported since.
	offered, gone map[key]Pin
	marked        bool
}

// recordOf sorts lines of a file into a record.
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

// lines are those of several parts of a record.
func lines(parts ...map[key]Pin) (all []Pin) {
	for _, part := range parts {
		all = slices.AppendSeq(all, maps.Values(part))
	}
	return sorted(all)
}

// strictly is the record without what was not imported.
func (r record) strictly() record {
	r.trusted = maps.Clone(r.trusted)
	maps.DeleteFunc(r.trusted, func(_ key, p Pin) bool { return p.How != Import })
	return r
}

// judge compares what is served with a record. It returns the pins that first use adds.
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
		case d.kind == KindListing: // a listing is not a definition: it marks the first contact
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
				item.Why = "the server has pins, and none of them is about what runs"
			case seen && there && waits.Digest == d.digest && !waits.Since.After(first.Since):
				item.Why = "it was not trusted at first contact, and nobody has decided about it yet"
			case seen:
				item.Why = "it has appeared since the first contact with the server"
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
		v.Notes = append(v.Notes, fmt.Sprintf("pins of the server %s are off: what it changes is neither noticed nor held", word(server)))
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

// add appends an item. All items of one name are kept, and the index has the last of them.
func (v *Verdict) add(item Item) {
	v.index[key{item.Kind, item.Name}] = len(v.Items)
	v.Items = append(v.Items, item)
}

// close completes the reasons: a server that is held holds all that it serves, and a reason
// says who can do something about it.
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

// advice is what people can do about something that is held.
func advice(mode Mode, server string) string {
	if mode == Strict {
		return "its pins are strict: review the change and import it with `belljar upstream pins import FILE`"
	}
	return fmt.Sprintf("a person can see it with `belljar upstream pins diff %s` and decide with `belljar upstream approve %[1]s`", printable.Operand(server))
}

// spoken is a kind about the whole server, as the subject of a sentence.
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

// heldBy is the verdict where the pins could not be read.
func heldBy(mode Mode, err error) *Verdict {
	return &Verdict{Mode: mode, Err: err, Held: "the pins of what was trusted cannot be used, so everything of other people's servers is held: " + err.Error()}
}

// pair names what was renamed: definitions that are new and definitions that are gone, with
// the same text but for the name. text returns the canonical text of a digest, or nil.
func (v *Verdict) pair(text func(Digest) []byte) {
	type what struct {
		kind Kind
		body string
	}
	free := make(map[what][]int) // what is new
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
			v.Items[j].Why = fmt.Sprintf("it was %s before, and has been renamed: ", word(item.Name)) + v.Items[j].Why
		}
	}
}

// mark returns a record with the marks of a verdict, for people in other processes. A mark
// of before keeps its time. A verdict from before the first list has only
// KindRuns, and other marks stay.
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
