package console

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"belljar.dev/internal/front"
)

// Bounds of attempts to end logins at a provider. A client has few attempts, because each
// attempt sends the secret of this server to the provider, and occupies one of the slots
// for requests to the provider.
const (
	maxEnded = 4096 // number of attempts that are remembered
	maxTries = 20   // failed attempts of one client within pendingLoginLife
)

// tries are the attempts to end logins within the last pendingLoginLife. A login can be
// ended only once. The methods of tries are safe for concurrent use.
type tries struct {
	mu  sync.Mutex
	all map[string]try // guarded by mu: attempts by the state of the login
}

// try is an attempt to end a login.
type try struct {
	from  netip.Prefix // network of the client; zero after a successful login
	until time.Time    // when the attempt is forgotten
}

// take records an attempt to end a login. A second attempt for the same login is an error.
// The error is for the person.
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
	if len(t.all) >= maxEnded { // if one were forgotten, its login could be ended again
		return fault(http.StatusTooManyRequests, "too many people log in at the provider now; try again in %s, or log in with a link or a token", pendingLoginLife)
	}
	if t.all == nil {
		t.all = make(map[string]try)
	}
	// An attempt is remembered for pendingLoginLife from now on, and not only until its
	// login expires: otherwise a client could save logins until just before they expire,
	// and have any number of attempts.
	t.all[state] = try{from, now.Add(pendingLoginLife)}
	return nil
}

// well records that a login was successful, so that its attempt does not count against the
// client.
func (t *tries) well(state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if try, ok := t.all[state]; ok {
		try.from = netip.Prefix{}
		t.all[state] = try
	}
}

// clientOf returns the network of the client of a request: its IPv4 address, or the first
// 64 bits of its IPv6 address, because one client has all addresses of such a network.
func clientOf(r *http.Request) netip.Prefix {
	from := front.LocalSender(r)
	if !from.IsValid() {
		from = netip.IPv6Unspecified() // all clients without a known address count as one
	}
	return netip.PrefixFrom(from, min(from.BitLen(), 64)).Masked()
}
