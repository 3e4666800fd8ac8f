package pin

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// maxShown is how many bytes of diffs are made for one call of Questions.
const maxShown = 1 << 20

// Question is a definition that waits for a person's decision, with the old and the new
// text.
type Question struct {
	Ref            // definition that a Decision must name
	State    State // New, Changed or Removed; Held if a person refused it
	Was      Digest
	Since    time.Time // time when Was was trusted
	Pair     string    // other name of a renamed definition
	Findings []Finding
	Diff     string // difference for people; hidden characters are visible
	// Cut reports that Diff does not show the whole difference: a person who reads it has
	// not seen the whole definition.
	Cut bool
}

// Waiting calls Questions with the names of all tools that belong to other servers.
func (b *Book) Waiting(ctx context.Context, s Server) ([]Question, error) {
	var others []string
	for _, at := range slices.Compact([]string{"", s.Place}) {
		pins, err := b.Export(ctx, s.Tenant, at)
		if err != nil {
			return nil, err
		}
		for _, one := range pins {
			if one.Kind == KindTool && (one.Server != s.Name || at != s.Place) {
				others = append(others, one.Name)
			}
		}
	}
	return b.Questions(ctx, s, others)
}

// Questions returns the definitions of a server that wait for a person since it was last
// judged, and those that are gone. Any process may call it. others are as in Rules.
func (b *Book) Questions(ctx context.Context, s Server, others []string) (all []Question, _ error) {
	err := b.read(ctx, s.Tenant, func(tx *sql.Tx, c *chain) error {
		r, err := load(ctx, tx, c, s)
		if err != nil {
			return err
		}
		v := r.waiting()
		texts := make(map[Digest][]byte)
		var failed error
		text := func(d Digest) []byte {
			if _, there := texts[d]; !there {
				text, err := textOf(ctx, tx, s, d)
				if err != nil && failed == nil {
					failed = err
				}
				texts[d] = text
			}
			return texts[d]
		}
		v.pair(text)
		var own []served
		for _, p := range lines(r.trusted, r.offered) {
			own = append(own, served{key: p.key()})
		}
		look, size := looking(others, own), 0
		for _, item := range v.Items {
			q := Question{Ref: Ref{item.Kind, item.Name, item.Digest}, State: item.State, Was: item.Was, Since: item.Since, Pair: item.Pair}
			if size < maxShown {
				q.show(text, v, &look)
				size += len(q.Diff)
			} else {
				q.Diff, q.Cut = "  it is not shown, because the whole text would be too long\n", true
			}
			all = append(all, q)
		}
		return failed
	})
	if err != nil {
		return nil, fmt.Errorf("read what waits for a decision about the server %s: %w", word(s.Name), remedy(err))
	}
	return all, nil
}

// waiting returns the verdict on the definitions in the marks of a record.
func (r record) waiting() *Verdict {
	v := &Verdict{index: make(map[key]int)}
	for _, m := range lines(r.offered, r.gone) {
		pin, known := r.trusted[m.key()]
		item := Item{Kind: m.Kind, Name: m.Name, State: New, Digest: m.Digest, Was: pin.Digest, Since: pin.Since}
		switch {
		case m.How == gone:
			item.State, item.At, item.Digest = Removed, -1, Digest{}
		case r.refused[m.key()].Digest == m.Digest:
			item.State = Held
		case known:
			item.State = Changed
		}
		v.add(item)
	}
	return v
}

// show sets the parts of a question that a person sees.
func (q *Question) show(textOf func(Digest) []byte, v *Verdict, look *looker) {
	was, is := q.Was, q.Digest
	switch {
	case q.State == Removed && q.Pair != "":
		q.Diff = fmt.Sprintf("  it has been renamed to %s\n", word(q.Pair))
		return
	case q.Pair != "":
		was = v.Items[v.index[key{q.Kind, q.Pair}]].Was
	}
	var old, now []byte
	if was != (Digest{}) {
		if old = textOf(was); old == nil {
			q.Diff += fmt.Sprintf("  the text that was trusted is not kept: %s\n", was)
		}
	}
	if is != (Digest{}) {
		if now = textOf(is); now == nil {
			q.Diff += fmt.Sprintf("  the text that is offered is not kept: %s\n", is)
			q.Cut = true
			return
		}
		q.Findings = look.at(served{key: key{q.Kind, q.Name}, digest: is, text: now})
	}
	text, whole := diff(old, now)
	q.Diff += text
	q.Cut = !whole
}
