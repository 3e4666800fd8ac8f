package policies

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// ask reads defaults.ask.
func (d *policyDecoder) ask(n *yaml.Node) asking {
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
			d.Fault(v, "lower it, or raise timeout", "return_after is %v, longer than the timeout of a question: %v", a.ReturnAfter, a.Timeout)
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
		case "once": // an approval always covers its own call
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
				d.Fault(n, "lower it, or raise max_remember of defaults.ask", "remember is %v, longer than the %v that an approval may last", value, most)
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

// channelOf reads ask. If ask cannot be read, nobody is asked.
func (d *policyDecoder) channelOf(n *yaml.Node) Channel {
	return Channel(max(d.word(n, "ask", channels...), int(ChannelDeny)))
}
