package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Filter says which approvals History returns. The zero value wants all.
type Filter struct {
	State  State
	Tenant string
	// Tenants are those whose approvals are meant; nil for all.
	Tenants []string
	Tool    string
	Rule    string
	By      string    // that is in the name of the person
	Text    string    // that is in what was shown, in the reason or in the note
	Before  time.Time // they were asked before this time
	Live    bool      // they are not over
	Over    bool      // an answer was given, or it is too late for one
	Most    int       // at most maxListed, which zero means as well
}

// History returns approvals, those that are over as well, the newest first.
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

// where is a filter as a condition of SQL, and its values.
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
		as, _ := json.Marshal(f.Text) // as the column shown has it
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
