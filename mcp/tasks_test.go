package mcp_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"belljar.dev/mcp"
)

// keeper keeps tasks in memory, and shows them to their sessions only.
type keeper struct {
	mu    sync.Mutex
	tasks map[string]*keptTask
}

type keptTask struct {
	mcp.Task
	session *mcp.Session
}

func newKeeper() *keeper { return &keeper{tasks: make(map[string]*keptTask)} }

func (k *keeper) Open(_ context.Context, c mcp.LaterCall) (mcp.Task, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := mcp.Task{ID: "t-" + rand.Text(), State: mcp.TaskWorking, Created: c.Started, Updated: c.Started}
	k.tasks[t.ID] = &keptTask{t, c.Session}
	return t, nil
}

func (k *keeper) Finish(_ context.Context, _ mcp.LaterCall, id, state string, answer json.RawMessage) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tasks[id]
	t.State, t.Answer, t.Updated = state, answer, time.Now()
	t.Expires = t.Updated.Add(time.Hour)
	return nil
}

func (k *keeper) Get(_ context.Context, s *mcp.Session, id string) (mcp.Task, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tasks[id]
	if t == nil || t.session != s {
		return mcp.Task{}, mcp.ErrNotFound
	}
	return t.Task, nil
}

func (k *keeper) Cancel(context.Context, *mcp.Session, string) error { return nil }

func (k *keeper) Release(context.Context, *mcp.Session) {}

// full is a keeper that has no room for tasks, and reports each attempt to open one.
type full struct {
	*keeper
	asked chan struct{}
}

func (f full) Open(context.Context, mcp.LaterCall) (mcp.Task, error) {
	f.asked <- struct{}{}
	return mcp.Task{}, errors.New("no room")
}
