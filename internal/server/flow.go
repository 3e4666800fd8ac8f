package server

import (
	"context"
	"fmt"
	"path/filepath"

	"belljar.dev/internal/callback"
	"belljar.dev/internal/config"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/skills"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
)

// flow contains the skills, hooks and callbacks of a place.
type flow struct {
	skills    *skills.Catalog
	hooks     *hooks.Set     // nil if no hooks run
	callbacks *callback.Book // nil if no callbacks are kept
	aside     *tools.Aside   // nil if no callbacks are kept
	around    *around        // nil if no callbacks are kept
	jobOver   chan struct{}  // receives a value at the end of a job; nil if nobody waits for it
}

// openCallbacks opens the callbacks, and the parts that add callbacks and skills to the
// results of calls.
func (p *place) openCallbacks(context.Context) error {
	s := p.server
	if s.cfg.Callbacks == nil {
		return nil
	}
	inbox := callback.Inbox{Place: p.Workspace}
	if s.cfg.Callbacks.Inbox != "" {
		dir, err := filepath.Abs(s.cfg.Callbacks.Inbox)
		if err != nil {
			return fmt.Errorf("inbox %s: %w", s.cfg.Callbacks.Inbox, err)
		}
		if _, _, err := config.Reached(dir, s.workspaces(), p.gate.now.Load(), func(m policies.Mount) bool { return m.Writable }); err != nil {
			return fmt.Errorf("inbox %s: %w; name another directory with --inbox", dir, err)
		}
		if !s.host.onlyMine(dir) {
			return fmt.Errorf("inbox %s: a box can write there, and would be believed; name another directory with --inbox", dir)
		}
		inbox.Dir = dir
	}
	p.flow.callbacks = callback.New(callback.Config{
		Config: p.books.kept,
		Post: func(d callback.Delivery) error {
			p.flow.later(hooks.Callback, d.Session, d.Tenant, map[string]any{
				"callback_id": d.Slot, "message": d.Message, "times": d.Times, "left": d.Left,
			})
			return inbox.Put(d)
		},
		Changed: func(tenant string) {
			if server := p.flow.around.server.Load(); server != nil {
				tools.CallbacksChanged(server, tenant)
			}
		},
	})
	p.flow.aside = tools.NewAside(p.flow.callbacks, p.flow.skills, s.Log)
	p.flow.around = newAround(&p.flow)
	p.flow.jobOver = make(chan struct{}, 1)
	return nil
}
