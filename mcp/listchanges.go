package mcp

import (
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolsChanged is the notification that the list of tools is another one.
const toolsChanged = "notifications/tools/list_changed"

// countedTenants bounds how many tenants a listChanges counts apart. Above that, clients may get
// a notification too many.
const countedTenants = 4096

// listChanges counts the changes of the list of tools of each tenant. The sdk notifies the
// clients of all tenants of each change; of these notifications only those leave that are news
// for their client (adapter.notifyMiddleware). It is safe for concurrent use.
type listChanges struct {
	mu      sync.Mutex
	shared  int64                              // guarded by mu: changes of the lists of all tenants
	own     map[string]int64                   // guarded by mu: further changes of a tenant's list
	clients map[*sdk.ServerSession]*listClient // guarded by mu: those that are notified
}

// listClient is a client that is notified when its list of tools changes.
type listClient struct {
	session *Session
	known   int64 // the changes that it was notified of, or that were there when it came
}

func newListChanges() *listChanges {
	return &listChanges{own: make(map[string]int64), clients: make(map[*sdk.ServerSession]*listClient)}
}

// all notes a change of the lists of all tenants.
func (c *listChanges) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared++
}

// one notes a change of the list of one tenant.
func (c *listChanges) one(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, counted := c.own[tenant]; !counted && len(c.own) >= countedTenants {
		for _, n := range c.own {
			c.shared += n // no number of a tenant may come back
		}
		clear(c.own)
	}
	c.own[tenant]++
}

// of returns how often the list of a tenant has changed; mu is held. Only whether two such
// numbers are equal says something.
func (c *listChanges) of(tenant string) int64 { return c.shared + c.own[tenant] }

// enter notes a client, which has the list as it is now.
func (c *listChanges) enter(ss *sdk.ServerSession, session *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[ss] = &listClient{session: session, known: c.of(session.tenant)}
}

// leave forgets a client.
func (c *listChanges) leave(ss *sdk.ServerSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, ss)
}

// forget forgets the clients of a session.
func (c *listChanges) forget(session *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ss, client := range c.clients {
		if client.session == session {
			delete(c.clients, ss)
		}
	}
}

// news reports whether a client has to learn that its list is another one, and notes that it
// does. A client that nobody has noted has to.
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
