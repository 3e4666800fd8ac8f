package todo

import (
	"context"
	"database/sql"
	"fmt"

	"belljar.dev/internal/store"
)

// Book contains the todos of a store. Several processes may use the same store. The methods
// of a Book are safe for concurrent use, and it needs no Close. A change is on the disk
// when the method that writes it has returned without an error.
type Book struct{ kept store.Book }

// New returns the book of a store. It opens nothing.
func New(cfg store.Config) *Book { return &Book{store.NewBook(cfg, schema)} }

// Create makes a todo, which becomes the session's current one.
func (b *Book) Create(ctx context.Context, o store.Owner, name string) (t Todo, err error) {
	if name, err = clean("the name of the task", name); err != nil {
		return t, err
	}
	err = b.write(ctx, o, func(w *work) error {
		if err := w.room(ctx); err != nil {
			return err
		}
		id, err := w.next(ctx, "todo")
		if err != nil {
			return err
		}
		if err := w.exec(ctx, "INSERT INTO todos_all VALUES (?, ?, ?, ?, ?, ?, ?)", id, name, string(Pending), w.now, w.now); err != nil {
			return err
		}
		if err := w.setCurrent(ctx, id); err != nil {
			return err
		}
		t, err = w.todo(ctx, id)
		return err
	})
	return t, err
}

// Add adds a step to a todo; id 0 means the session's current todo.
func (b *Book) Add(ctx context.Context, o store.Owner, id int64, text string) (t Todo, s Step, err error) {
	if text, err = clean("the text of the step", text); err != nil {
		return t, s, err
	}
	err = b.write(ctx, o, func(w *work) error {
		if t, err = w.wanted(ctx, id); err != nil {
			return err
		}
		switch {
		case !t.Status.Open():
			return wrong(ErrStatus, "task %d is %s; action complete with status pending opens it again, or create another", t.ID, t.Status)
		case len(t.Steps) >= MaxSteps:
			return wrong(ErrFull, "task %d has %d steps, and more are not allowed; create another task for the rest", t.ID, len(t.Steps))
		}
		s = Step{Text: text, Status: Pending}
		if s.ID, err = w.next(ctx, "step"); err != nil {
			return err
		}
		if err := w.exec(ctx, "INSERT INTO todos_steps VALUES (?, ?, ?, ?, ?, ?)", t.ID, s.ID, s.Text, string(s.Status)); err != nil {
			return err
		}
		t.Steps = append(t.Steps, s)
		return w.touch(ctx, &t)
	})
	return t, s, err
}

// SetTodo gives a todo a status; id 0 means the session's current todo. With the status
// InProgress the todo becomes the current one; with any other status it is no longer
// current.
func (b *Book) SetTodo(ctx context.Context, o store.Owner, id int64, status Status) (before, after Todo, err error) {
	err = b.write(ctx, o, func(w *work) error {
		if before, err = w.wanted(ctx, id); err != nil {
			return err
		}
		kept := status
		if status == InProgress {
			kept = Pending
		}
		if err := w.exec(ctx, "UPDATE todos_all SET status = ?4, changed = ?5 WHERE tenant = ?1 AND place = ?2 AND id = ?3", before.ID, string(kept), w.now); err != nil {
			return err
		}
		switch {
		case status == InProgress:
			err = w.setCurrent(ctx, before.ID)
		case before.Current:
			err = w.setCurrent(ctx, 0)
		}
		if err != nil {
			return err
		}
		after, err = w.todo(ctx, before.ID)
		return err
	})
	return before, after, err
}

// SetStep gives a step a status. If todo is not 0, the step must belong to that todo.
func (b *Book) SetStep(ctx context.Context, o store.Owner, todo, step int64, status Status) (before, after Todo, err error) {
	err = b.write(ctx, o, func(w *work) error {
		if before, err = w.ofStep(ctx, todo, step); err != nil {
			return err
		}
		for _, s := range before.Steps {
			if status == InProgress && s.ID != step && s.Status == InProgress {
				return wrong(ErrStatus, "step %d of task %d is in progress already, and only one can be; complete it first, or set it back to pending", s.ID, before.ID)
			}
		}
		if err := w.exec(ctx, "UPDATE todos_steps SET status = ?5 WHERE tenant = ?1 AND place = ?2 AND todo = ?3 AND id = ?4", before.ID, step, string(status)); err != nil {
			return err
		}
		after = before
		if err := w.touch(ctx, &after); err != nil {
			return err
		}
		after, err = w.todo(ctx, before.ID)
		return err
	})
	return before, after, err
}

// Switch makes a todo the session's current one.
func (b *Book) Switch(ctx context.Context, o store.Owner, id int64) (t Todo, err error) {
	err = b.write(ctx, o, func(w *work) error {
		if t, err = w.todo(ctx, id); err != nil {
			return err
		}
		if !t.Status.Open() {
			return wrong(ErrStatus, "task %d is %s; action complete with status pending opens it again", t.ID, t.Status)
		}
		if t.Status == Blocked {
			if err := w.exec(ctx, "UPDATE todos_all SET status = ?4, changed = ?5 WHERE tenant = ?1 AND place = ?2 AND id = ?3", id, string(Pending), w.now); err != nil {
				return err
			}
		}
		if err := w.setCurrent(ctx, id); err != nil {
			return err
		}
		t, err = w.todo(ctx, id)
		return err
	})
	return t, err
}

// List returns all todos of the owner, the oldest first.
func (b *Book) List(ctx context.Context, o store.Owner) (all []Todo, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		w := b.work(tx, o)
		all, err = w.todos(ctx, "")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list todos: %w", err)
	}
	return all, nil
}

func (b *Book) work(tx *sql.Tx, o store.Owner) *work {
	return &work{tx: tx, owner: o, place: b.kept.Place, now: b.kept.Now().UnixMilli()}
}

func (b *Book) write(ctx context.Context, o store.Owner, f func(w *work) error) error {
	err := b.kept.Write(ctx, func(tx *sql.Tx) error { return f(b.work(tx, o)) })
	if err != nil && !Told(err) {
		return fmt.Errorf("write todos: %w", err)
	}
	return err
}

// Count returns how many todos of the owner are open, how many are completed or cancelled,
// and the id of the session's current todo; 0 without a current one.
func (b *Book) Count(ctx context.Context, o store.Owner) (open, over int, current int64, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		w := b.work(tx, o)
		if current, err = w.current(ctx); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE status NOT IN ('completed', 'cancelled')), count(*) FILTER (WHERE status IN ('completed', 'cancelled')) FROM todos_all WHERE tenant = ? AND place = ?",
			o.Tenant, w.place).Scan(&open, &over)
	})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("count todos: %w", err)
	}
	return open, over, current, nil
}
