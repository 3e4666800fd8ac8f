package browser_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameserver answers for all names, on port 53 of all addresses, with a time to live of
// zero. Its answer may change from one question to the next.
type nameserver struct {
	net.Resolver

	mu    sync.Mutex
	known map[string][]string // answers of each name, in turn; the last stays
	asked map[string]int
	given map[netip.Addr]int // how often each address was in an answer
}

// newNameserver starts a nameserver. A DNS question of a browser for a name counts as a hit
// of that name as well.
func newNameserver(t *testing.T, w *world) *nameserver {
	t.Helper()
	n := &nameserver{known: map[string][]string{}, asked: map[string]int{}, given: map[netip.Addr]int{}}
	c, err := net.ListenPacket("udp", ":53")
	if err != nil {
		t.Fatal(err)
	}
	w.wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := n.answer(buf[:size]); err == nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	})
	t.Cleanup(func() { c.Close() })
	n.Resolver = net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", "127.0.0.1:53")
	}}
	return n
}

// LookupNetIP asks in the same way as the door's own resolver: with a closing dot, so
// without search domains.
func (n *nameserver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return n.Resolver.LookupNetIP(ctx, network, host+".")
}

// set sets the answers for a name: addresses, or "cname:" and another name. They are used
// in turn; a turn ends with a question for an IPv4 address.
func (n *nameserver) set(name string, turns ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[name], n.asked[name] = turns, 0
}

// questions returns how often a name was asked for.
func (n *nameserver) questions(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}

// answers returns how often an address was in an answer.
func (n *nameserver) answers(addr netip.Addr) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.given[addr]
}

// answer returns the answer to one question.
func (n *nameserver) answer(packet []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("no question: %w", err)
	}
	q := m.Questions[0]
	r := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true, RecursionDesired: m.RecursionDesired},
		Questions: m.Questions,
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	at := q.Name
	for range 8 { // at most 8 aliases
		name := strings.ToLower(strings.TrimSuffix(at.String(), "."))
		n.asked[name]++
		turns := n.known[name]
		if len(turns) == 0 {
			if len(r.Answers) == 0 {
				r.RCode = dnsmessage.RCodeNameError
			}
			break
		}
		now := turns[0]
		if len(turns) > 1 && q.Type == dnsmessage.TypeA {
			n.known[name] = turns[1:]
		}
		head := dnsmessage.ResourceHeader{Name: at, Class: dnsmessage.ClassINET}
		if to, ok := strings.CutPrefix(now, "cname:"); ok {
			alias, err := dnsmessage.NewName(to + ".")
			if err != nil {
				return nil, err
			}
			r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.CNAMEResource{CNAME: alias}})
			at = alias
			continue
		}
		for text := range strings.FieldsSeq(now) {
			a := netip.MustParseAddr(text)
			n.given[a]++
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
		break
	}
	return r.Pack()
}
