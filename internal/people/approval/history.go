package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Filter selects the approvals that History returns. The zero value selects all.
type Filter struct {
	State  State
	Tenant string
	// Tenants are the tenants whose approvals are selected; nil selects all.
	Tenants []string
	Tool    string
	Rule    string
	By      string    // part of the name of the person who answered
	Text    string    // part of the shown text, the reason or the note
	Before  time.Time // time before which the approvals were asked
	Live    bool      // selects only approvals that have not ended
	Over    bool      // selects only approvals that no longer wait for an answer
	Most    int       // most approvals that are returned; zero means maxListed, which is also the upper bound
}

// History returns approvals, also those that have ended, the newest first.
func (d *Desk) History(ctx context.Context, f Filter) (list []Approval, err error) {
	where, args := f.where()
	most := f.Most
	if most < 1 || most > maxListed {
		most = maxListed
	}
	err = d.Write(ctx, func(w *work) error {
		list, err = w.Some(ctx, where+" ORDER BY created DESC, id LIMIT ?", append(args, most)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	return list, nil
}

// where returns the filter as a condition of SQL, with the values of its parameters.
func (f Filter) where() (condition string, values []any) {
	parts := []string{"true"}
	add := func(part string, with ...any) {
		parts, values = append(parts, part), append(values, with...)
	}
	for _, field := range []struct{ column, value string }{{"state", string(f.State)}, {"tenant", f.Tenant}, {"tool", f.Tool}, {"rule", f.Rule}} {
		if field.value != "" {
			add(field.column+" = ?", field.value)
		}
	}
	if f.Tenants != nil {
		all, _ := json.Marshal(f.Tenants)
		add("tenant IN (SELECT value FROM json_each(?))", string(all))
	}
	if f.Live {
		add("(" + kind.Live + ")")
	}
	if f.By != "" {
		add("instr(lower(by_whom), lower(?)) > 0", f.By)
	}
	if f.Text != "" {
		as, _ := json.Marshal(f.Text) // the JSON form that the column shown contains
		add("(instr(shown, ?) > 0 OR instr(reason, ?) > 0 OR instr(note, ?) > 0)", string(as[1:len(as)-1]), f.Text, f.Text)
	}
	if !f.Before.IsZero() {
		add("created < ?", f.Before.UnixMilli())
	}
	if f.Over {
		add("state <> 'pending'")
	}
	return strings.Join(parts, " AND "), values
}
