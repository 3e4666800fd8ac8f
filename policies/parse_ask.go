package policies

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// How a question is put where the policy does not say.
const (
	DefaultAskTimeout     = 10 * time.Minute // until a question that nobody answers is a no
	DefaultAskReturnAfter = 20 * time.Second // until the call that asks gets an answer, if only that it waits
	DefaultMaxRemember    = 8 * time.Hour    // longest life of an approval that outlives its session
)

// Bounds of how a question is put. Clients give up on a call after a minute, so
// a call that waits longer never gets its answer to the agent.
const (
	maxAskTimeout     = 24 * time.Hour
	maxAskReturnAfter = 50 * time.Second
	mostRemember      = 30 * 24 * time.Hour
)

// Asking says how a person is asked.
type Asking struct {
	Timeout     time.Duration // until a question that nobody answers is a no
	ReturnAfter time.Duration // until the call that asks gets an answer, if only that it waits; at most Timeout
}

// Remember says which further calls an approval may cover besides its own call.
// The zero value means none: the approval holds once.
type Remember struct {
	Session bool          // for equal calls until the session ends
	For     time.Duration // for equal calls until this time has passed, if above zero
}

// narrow returns the Remember that both allow.
func (r Remember) narrow(other Remember) Remember {
	return Remember{Session: r.Session && other.Session, For: min(r.For, other.For)}
}

// anyRemember is what every other Remember is narrower than.
var anyRemember = Remember{Session: true, For: mostRemember}

// remembers is what a rule that asks says about approvals. A deny rule that may or
// may not match a part also asks; its approval covers only the call.
func (r *rule) remembers(p *Policy) Remember {
	switch {
	case r.verdict == Deny:
		return Remember{}
	case r.terms.remember != nil:
		return *r.terms.remember
	}
	return p.asking.remember
}

// String is r as policies spell it.
func (r Remember) String() string {
	text := "once"
	if r.Session {
		text += ", session"
	}
	if r.For > 0 {
		text += fmt.Sprintf(", %v", r.For)
	}
	return text
}

// asking is what defaults.ask says.
type asking struct {
	Asking
	remember Remember      // of a rule that says nothing
	most     time.Duration // longest Remember.For of any rule
}

func defaultAsking() asking {
	return asking{
		Asking:   Asking{Timeout: DefaultAskTimeout, ReturnAfter: DefaultAskReturnAfter},
		remember: Remember{Session: true}, most: DefaultMaxRemember,
	}
}

// ask reads defaults.ask.
func (d *decoder) ask(n *yaml.Node) asking {
	a := defaultAsking()
	o, ok := d.mapping(n, "ask", askShape)
	if !ok {
		return a
	}
	timed := func(key string, to *time.Duration, least, most time.Duration) *yaml.Node {
		v := o.get(key)
		if v == nil {
			return nil
		}
		value, ok := d.duration(v, key)
		switch {
		case !ok:
		case value < least || value > most:
			d.Fault(v, "", "%s is %v, outside %v to %v", key, value, least, most)
		default:
			*to = value
		}
		return v
	}
	timed("timeout", &a.Timeout, time.Second, maxAskTimeout)
	if v := timed("return_after", &a.ReturnAfter, time.Second, maxAskReturnAfter); a.ReturnAfter > a.Timeout {
		if v != nil {
			d.Fault(v, "lower it, or raise timeout", "return_after is %v, longer than a question lives: %v", a.ReturnAfter, a.Timeout)
		}
		a.ReturnAfter = a.Timeout
	}
	timed("max_remember", &a.most, time.Second, mostRemember)
	if v := o.get("remember"); v != nil {
		a.remember = d.remember(v, a.most)
	}
	return a
}

// remember reads which further calls an approval may cover.
func (d *decoder) remember(n *yaml.Node, most time.Duration) Remember {
	var r Remember
	seen := make(map[string]bool)
	d.texts(n, "remember", func(n *yaml.Node, s string) {
		kind := s
		switch s {
		case "once": // always
		case "session":
			r.Session = true
		default:
			if s == "" || s[0] < '0' || s[0] > '9' {
				d.Fault(n, suggest(s, []string{"once", "session", "8h"}), "remember cannot be %q", s)
				return
			}
			kind = "a time"
			value, ok := d.duration(n, "remember")
			switch {
			case !ok:
			case value > most:
				d.Fault(n, "lower it, or raise max_remember of defaults.ask", "remember is %v, longer than the %v that an approval may live", value, most)
			default:
				r.For = value
			}
		}
		if seen[kind] {
			d.Fault(n, "remove one", "remember names %s twice", kind)
		}
		seen[kind] = true
	})
	return r
}

// Asking says how a person is asked, for questions that no decision has caused.
func (p *Policy) Asking() Asking { return p.asking.Asking }
