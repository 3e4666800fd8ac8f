package mcp

import (
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolsChanged is the notification that the list of tools has changed.
const toolsChanged = "notifications/tools/list_changed"

// countedTenants is the largest number of tenants that a listChanges counts separately.
// With more tenants, clients may get an unnecessary notification.
const countedTenants = 4096

// listChanges counts the changes of the list of tools of each tenant. The sdk notifies the
// clients of all tenants about each change. Only those notifications are sent that are new
// for their client (adapter.notifyMiddleware). It is safe for concurrent use.
type listChanges struct {
	mu      sync.Mutex
	shared  int64                              // guarded by mu: number of changes of the lists of all tenants
	own     map[string]int64                   // guarded by mu: number of further changes of each tenant's list
	clients map[*sdk.ServerSession]*listClient // guarded by mu: clients that are notified
}

// listClient is a client that is notified when its list of tools changes.
type listClient struct {
	session *Session
	known   int64 // number of changes that it was notified of, or that were made before it was added
}

func newListChanges() *listChanges {
	return &listChanges{own: make(map[string]int64), clients: make(map[*sdk.ServerSession]*listClient)}
}

// all counts a change of the lists of all tenants.
func (c *listChanges) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared++
}

// one counts a change of the list of one tenant.
func (c *listChanges) one(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, counted := c.own[tenant]; !counted && len(c.own) >= countedTenants {
		for _, n := range c.own {
			c.shared += n // so that no tenant gets an earlier number again
		}
		clear(c.own)
	}
	c.own[tenant]++
}

// of returns a number that grows with each change of a tenant's list; the caller holds mu.
// Two such numbers can only be compared for equality.
func (c *listChanges) of(tenant string) int64 { return c.shared + c.own[tenant] }

// enter adds a client, which has the current list.
func (c *listChanges) enter(ss *sdk.ServerSession, session *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[ss] = &listClient{session: session, known: c.of(session.tenant)}
}

// leave removes a client.
func (c *listChanges) leave(ss *sdk.ServerSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, ss)
}

// forget removes the clients of a session.
func (c *listChanges) forget(session *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ss, client := range c.clients {
		if client.session == session {
			delete(c.clients, ss)
		}
	}
}

// news reports whether a client must be notified that its list has changed, and records
// that it is notified. A client that was not added must always be notified.
func (c *listChanges) news(ss *sdk.ServerSession) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.clients[ss]
	if client == nil {
		return true
	}
	now := c.of(client.session.tenant)
	if client.known == now {
		return false
	}
	client.known = now
	return true
}
