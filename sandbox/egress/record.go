package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"belljar.dev/policies"
)

// maxShown bounds the text of a call that a message repeats, and maxLine bounds a message,
// both in characters.
const (
	maxShown = 120
	maxLine  = 600
)

// Record describes one connection, one HTTP request on a connection, or one look-up of a
// name that was refused.
type Record struct {
	Time    time.Time // start of the connection, request or look-up
	Tenant  string    // tenant of the box; set by the owner of the door
	Profile string
	Proto   string        // "tcp", "http", "tls" or "dns"
	Host    policies.Host // host that the box wants to reach; zero if not known
	// address that the door dialled, or that the box dialled if it stands for no name; may
	// be invalid
	Addr     netip.AddrPort
	Port     uint16
	Method   string // method of a request
	Path     string // path of a request, without the query
	Allowed  bool
	Rule     string // rule that decided
	Reason   string // why it was refused, or why it failed or has no whole answer; empty otherwise
	Instead  string // advice for the agent: what is allowed, or what to do; may be empty
	Sent     int64  // bytes out of the box
	Received int64  // bytes into the box
	Took     time.Duration
	Secret   string // name of the secret that was added
	Count    int    // number of equal refusals, in the result of Blocked; otherwise 0
}

// Refused is the error for a connection, request or name that the door refused.
type Refused struct{ Record Record }

// Error says what was refused and why, for a log.
func (r *Refused) Error() string {
	return policies.Clip(fmt.Sprintf("%s: refused: %s", r.Record.what(), r.Record.Reason), maxLine)
}

// ByLimit reports whether the cause of the refusal is a limit that was reached, and not the
// policy.
func (r *Refused) ByLimit() bool { return r.Record.Rule == ruleLimits }

// Refusal returns the text of Block, or "" for an allowed record.
func (r Record) Refusal() string {
	if r.Allowed {
		return ""
	}
	return policies.Clip(r.Block().Refusal().Text(), maxLine)
}

// Block returns the message about a refusal for the agent: what was refused, why,
// that the server is not to blame, and what is allowed.
func (r Record) Block() policies.Block {
	return policies.Block{
		What: r.what(), Times: r.Count, Host: true, Reason: r.Reason, Rule: r.Rule, Profile: r.Profile,
		Instead: cmp.Or(r.Instead, "Reach the goal another way, or tell the person you work for."),
	}
}

// what describes the attempt in the agent's words.
func (r Record) what() string {
	target := policies.Clip(r.Host.String(), maxShown)
	switch {
	case r.Host.IsZero() && r.Addr.IsValid():
		target = r.Addr.String()
	case r.Host.Addr().Is6() && r.Port != 0:
		target = fmt.Sprintf("[%s]:%d", target, r.Port)
	case r.Port != 0:
		target = fmt.Sprintf("%s:%d", target, r.Port)
	}
	switch {
	case r.Proto == "dns":
		return "look-up of " + cmp.Or(target, "a name")
	case r.Method != "":
		return fmt.Sprintf("%s %s%s", policies.Clip(r.Method, 20), target, policies.Clip(r.Path, maxShown))
	case target == "":
		return "opening a connection"
	}
	return "connect to " + target
}

// record adds a refused r to Blocked and calls Config.Record.
func (d *Door) record(r Record) {
	r.Profile = d.cfg.Profile
	if !r.Allowed {
		d.blocked.add(r)
	}
	if d.cfg.Record != nil {
		d.cfg.Record(r)
	}
}

// recordSome is record for refusals that a box can cause as often as it likes: Blocked
// counts all of them, but Config.Record is called once for each kind in each period of
// throttleFor.
func (d *Door) recordSome(kind string, r Record) {
	r.Profile = d.cfg.Profile
	d.blocked.add(r)
	if d.cfg.Record != nil && d.told.first(kind, r.Time) {
		d.cfg.Record(r)
	}
}

// maxInstead bounds the allowed hosts that a refusal names.
const maxInstead = 3

// instead returns a text that names allowed hosts, for the refusal of another host.
func instead(e *policies.Egress) string {
	var hosts []string
	for _, r := range e.Allow {
		if r.Host == "*" {
			r.Host = "all public names"
		}
		hosts = append(hosts, r.Host)
	}
	for _, r := range e.Private {
		hosts = append(hosts, r.Host.String())
	}
	hosts = slices.Compact(hosts)
	more := ""
	if n := len(hosts) - maxInstead; n > 0 {
		hosts, more = hosts[:maxInstead], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("Allowed here: %s%s.", policies.Clip(strings.Join(hosts, ", "), maxShown), more)
}

// refuseVerdict is the refusal of rec by the policy.
func (d *Door) refuseVerdict(snap *snapshot, rec Record, v policies.EgressVerdict) *Refused {
	rec.Profile, rec.Rule, rec.Reason = d.cfg.Profile, v.Rule, v.Reason
	switch {
	case snap.IsZero():
		rec.Reason = fmt.Sprintf("profile %q has no network", d.cfg.Profile)
		rec.Instead = "Work without the network, or ask the person you work for to allow it."
	case !strings.HasPrefix(v.Rule, "deny ") && !snap.Connect(rec.Host, rec.Port).Allowed:
		rec.Instead = instead(snap.Egress)
	}
	return &Refused{Record: rec}
}

// turnAway records a connection for which begin returned an error.
func (d *Door) turnAway(err error, addr netip.AddrPort) {
	if refused, ok := errors.AsType[*Refused](err); ok {
		rec := refused.Record
		rec.Addr, rec.Port = addr, addr.Port()
		rec.Host, _ = d.names.name(addr.Addr().Unmap()) // if the address has no name, the record contains only the address
		d.recordSome(rec.Reason, rec)
	}
}
