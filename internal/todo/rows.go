package todo

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/store"
)

// work is one transaction on the todos of one owner in one workspace.
type work struct {
	tx    *sql.Tx
	owner store.Owner
	place string
	now   int64
}

// exec runs a statement whose first two arguments are the owner's tenant and
// place.
func (w *work) exec(ctx context.Context, statement string, args ...any) error {
	_, err := w.tx.ExecContext(ctx, statement, append([]any{w.owner.Tenant, w.place}, args...)...)
	return err
}

// next returns an id that was never given before.
func (w *work) next(ctx context.Context, kind string) (id int64, err error) {
	column := map[string]string{"todo": "todo", "step": "step"}[kind]
	todo, step := 1, 1
	if kind == "todo" {
		todo = 2
	} else {
		step = 2
	}
	err = w.tx.QueryRowContext(ctx, `INSERT INTO todos_next VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET `+column+` = `+column+` + 1 RETURNING `+column+` - 1`,
		w.owner.Tenant, w.place, todo, step).Scan(&id)
	return id, err
}

// room makes room for one more todo: in a full book it deletes the completed or cancelled
// todo whose last change is the oldest.
func (w *work) room(ctx context.Context) error {
	var n int
	if err := w.tx.QueryRowContext(ctx, "SELECT count(*) FROM todos_all WHERE tenant = ? AND place = ?", w.owner.Tenant, w.place).Scan(&n); err != nil {
		return err
	}
	if n < MaxTodos {
		return nil
	}
	var oldest int64
	err := w.tx.QueryRowContext(ctx, "SELECT id FROM todos_all WHERE tenant = ? AND place = ? AND status IN ('completed', 'cancelled') ORDER BY changed, id LIMIT 1",
		w.owner.Tenant, w.place).Scan(&oldest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wrong(ErrFull, "%d tasks are open, and more are not allowed; complete or cancel some", n)
	case err != nil:
		return err
	}
	return errors.Join(
		w.exec(ctx, "DELETE FROM todos_steps WHERE tenant = ? AND place = ? AND todo = ?", oldest),
		w.exec(ctx, "DELETE FROM todos_all WHERE tenant = ? AND place = ? AND id = ?", oldest))
}

// current returns the id of the session's current todo; 0 without a current one.
func (w *work) current(ctx context.Context) (id int64, err error) {
	err = w.tx.QueryRowContext(ctx, "SELECT todo FROM todos_current WHERE tenant = ? AND place = ? AND session IN (?, '') ORDER BY session DESC LIMIT 1",
		w.owner.Tenant, w.place, w.owner.Session).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// setCurrent records the current todo of the session, with which new sessions begin too.
// The id 0 means none.
func (w *work) setCurrent(ctx context.Context, id int64) error {
	for _, session := range slices.Compact([]string{"", w.owner.Session}) {
		if err := w.exec(ctx, "INSERT INTO todos_current VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET todo = excluded.todo, changed = excluded.changed", session, id, w.now); err != nil {
			return err
		}
	}
	return w.exec(ctx, `DELETE FROM todos_current WHERE tenant = ?1 AND place = ?2 AND session IN (
		SELECT session FROM todos_current WHERE tenant = ?1 AND place = ?2 AND session <> '' ORDER BY changed DESC, session LIMIT -1 OFFSET ?3)`, maxSessions)
}

// wanted returns a todo by its id; 0 means the session's current todo.
func (w *work) wanted(ctx context.Context, id int64) (Todo, error) {
	if id != 0 {
		return w.todo(ctx, id)
	}
	current, err := w.current(ctx)
	switch {
	case err != nil:
		return Todo{}, err
	case current == 0:
		return Todo{}, wrong(ErrUnknown, "this session has no current task; name one by task_id, switch to one, or create one")
	}
	return w.todo(ctx, current)
}

// todo returns one todo. It does not find those of other tenants and workspaces.
func (w *work) todo(ctx context.Context, id int64) (Todo, error) {
	all, err := w.todos(ctx, "AND id = ?", id)
	switch {
	case err != nil:
		return Todo{}, err
	case len(all) == 0:
		return Todo{}, w.unknown(ctx, "task", id)
	}
	return all[0], nil
}

// unknown returns an error that says that the todo or step does not exist, and lists the
// open todos.
func (w *work) unknown(ctx context.Context, what string, id int64) error {
	all, err := w.todos(ctx, "AND status NOT IN ('completed', 'cancelled')")
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return wrong(ErrUnknown, "there is no %s %d, and no open task in this workspace; create one", what, id)
	}
	ids := make([]string, 0, 8)
	for _, t := range all[max(0, len(all)-8):] {
		ids = append(ids, strconv.FormatInt(t.ID, 10))
	}
	return wrong(ErrUnknown, "there is no %s %d in this workspace; open tasks: %s; list shows them with their steps", what, id, strings.Join(ids, ", "))
}

// ofStep returns the todo that has a step. If todo is not 0, it must be this todo.
func (w *work) ofStep(ctx context.Context, todo, step int64) (Todo, error) {
	var of int64
	err := w.tx.QueryRowContext(ctx, "SELECT todo FROM todos_steps WHERE tenant = ? AND place = ? AND id = ?", w.owner.Tenant, w.place, step).Scan(&of)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Todo{}, w.unknown(ctx, "step", step)
	case err != nil:
		return Todo{}, err
	case todo != 0 && todo != of:
		return Todo{}, wrong(ErrUnknown, "step %d belongs to task %d, not to task %d", step, of, todo)
	}
	return w.todo(ctx, of)
}

// touch records that a todo has changed.
func (w *work) touch(ctx context.Context, t *Todo) error {
	t.Changed = time.UnixMilli(w.now)
	return w.exec(ctx, "UPDATE todos_all SET changed = ?4 WHERE tenant = ?1 AND place = ?2 AND id = ?3", t.ID, w.now)
}

// todos returns the todos that fulfil a condition, with their steps.
func (w *work) todos(ctx context.Context, and string, args ...any) ([]Todo, error) {
	current, err := w.current(ctx)
	if err != nil {
		return nil, err
	}
	args = append([]any{w.owner.Tenant, w.place}, args...)
	all, err := store.Rows(ctx, w.tx, func(row *sql.Rows) (t Todo, err error) {
		var created, changed int64
		err = row.Scan(&t.ID, &t.Name, &t.Status, &created, &changed)
		t.Created, t.Changed = time.UnixMilli(created), time.UnixMilli(changed)
		if t.Current = t.ID == current; t.Current && t.Status == Pending {
			t.Status = InProgress
		}
		return t, err
	}, "SELECT id, name, status, created, changed FROM todos_all WHERE tenant = ? AND place = ? "+and+" ORDER BY id", args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	at := make(map[int64]*Todo, len(all))
	for i := range all {
		at[all[i].ID] = &all[i]
	}
	_, err = store.Rows(ctx, w.tx, func(row *sql.Rows) (s Step, err error) {
		var todo int64
		err = row.Scan(&todo, &s.ID, &s.Text, &s.Status)
		if t, known := at[todo]; known {
			t.Steps = append(t.Steps, s)
		}
		return s, err
	}, "SELECT todo, id, text, status FROM todos_steps WHERE tenant = ? AND place = ? AND todo BETWEEN ? AND ? ORDER BY todo, id",
		w.owner.Tenant, w.place, all[0].ID, all[len(all)-1].ID)
	return all, err
}
