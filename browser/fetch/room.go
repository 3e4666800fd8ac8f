package fetch

import (
	"errors"
	"net/http"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// room contains the door of a tenant and its grant, and everything that was fetched through
// it. A page that was fetched for one tenant is never given to another.
type room struct {
	door   Door
	client *http.Client
	cache  *cache
	hosts  *hosts
	robots *robotsCache
}

// newRoom opens the door of a grant. A door opens no file and no connection yet.
func (f *Fetcher) newRoom(g policies.Grant) (*room, error) {
	door, err := f.cfg.Door(g)
	if err != nil {
		return nil, &Error{Kind: KindBroken, Message: "the egress door cannot be opened", Instead: "tell the person you work for to look into the log of the server", Err: err}
	}
	client := door.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &room{door: door, client: client, cache: newCache(), hosts: newHosts(f.cfg.Burst), robots: newRobotsCache()}, nil
}

// Close closes the door.
func (m *room) Close() error { return m.door.Close() }

// enter borrows the room of a grant; the caller must return it to f.rooms.
func (f *Fetcher) enter(g policies.Grant) (*egress.Loan[*room], error) {
	m, err := f.rooms.Take(g, f.cfg.now(), func() (*room, error) { return f.newRoom(g) })
	switch {
	case errors.Is(err, egress.ErrClosed):
		return nil, &Error{Kind: KindClosed, Message: "belljar is ending"}
	case errors.Is(err, egress.ErrCrowded):
		return nil, &Error{Kind: KindBusy, Message: "belljar is reading pages for too many tenants at the moment", Instead: "try again in a moment", Retry: time.Second}
	}
	return m, err
}
