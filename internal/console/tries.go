package console

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"belljar.dev/internal/front"
)

// Bounds of ends of logins at a provider. A client has few tries, since each one of them spends the
// secret of this server at the provider, and one of the slots for requests to the provider.
const (
	maxEnded = 4096 // logins that are remembered
	maxTries = 20   // of one client that did not let it in, within pendingLoginLife
)

// tries are the ends of logins at a provider within the last pendingLoginLife: a login ends once. Its
// methods are safe for concurrent use.
type tries struct {
	mu  sync.Mutex
	all map[string]try // guarded by mu: by the state of the login
}

// try is the end of a login.
type try struct {
	from  netip.Prefix // of the client; zero once it was let in
	until time.Time    // when it is forgotten
}

// take remembers that a login ends, which is once. The error is for the person.
func (t *tries) take(state string, from netip.Prefix) error {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	same := 0
	for state, try := range t.all {
		if !try.until.After(now) {
			delete(t.all, state)
		} else if try.from == from {
			same++
		}
	}
	if _, ended := t.all[state]; ended {
		return errNotPending
	}
	if same >= maxTries {
		return fault(http.StatusTooManyRequests, "too many logins at the provider from your address did not succeed; try again in %s, or log in with a link or a token", pendingLoginLife)
	}
	if len(t.all) >= maxEnded { // to forget one would make a login good again
		return fault(http.StatusTooManyRequests, "too many people log in at the provider now; try again in %s, or log in with a link or a token", pendingLoginLife)
	}
	if t.all == nil {
		t.all = make(map[string]try)
	}
	// From now on, not only until the login is too old: otherwise logins that are kept until just
	// before that would give a client any number of tries.
	t.all[state] = try{from, now.Add(pendingLoginLife)}
	return nil
}

// well says that the end of a login let somebody in, so it does not count against its client.
func (t *tries) well(state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if try, ok := t.all[state]; ok {
		try.from = netip.Prefix{}
		t.all[state] = try
	}
}

// clientOf is the network of the client of a request: its address, or of IPv6 the 64 bits that one
// client has all addresses of.
func clientOf(r *http.Request) netip.Prefix {
	from := front.LocalSender(r)
	if !from.IsValid() {
		from = netip.IPv6Unspecified() // all that cannot be told apart
	}
	return netip.PrefixFrom(from, min(from.BitLen(), 64)).Masked()
}
