package sandbox

import (
	"slices"
	"strings"

	"belljar.dev/policies"
)

// The weights of the network. The data that leave a box can be all that the box can read,
// so the weight depends on how many hosts could receive them.
const (
	weightEveryName = 25
	weightBelowName = 12 // names to which somebody may add a name
	weightNames     = 6
	weightPrivate   = 10 // servers that trust every client that can reach them
	weightIntercept = 3  // the door reads all that is sent
	weightSecret    = 5  // the box can use the secret, but not see it
	weightBareHTTP  = 5  // in addition, if anybody on the way can read the secret
	weightPublish   = 2
)

// exposeNetwork adds what a profile lets out and in.
func exposeNetwork(p policies.Profile, add func(score int, fact string, args ...any)) {
	if len(p.Publish) > 0 {
		add(weightPublish, "ports of it can be opened on this machine")
	}
	e := p.Egress
	switch {
	case p.Network == policies.NetworkNone:
		return
	case e == nil: // nothing is known about its egress
		add(weightEveryName, "it can reach every public name")
		return
	}
	has := func(test func(host string) bool) bool {
		return slices.ContainsFunc(e.Allow, func(r policies.EgressRule) bool { return test(r.Host) })
	}
	switch {
	case has(func(host string) bool { return host == "*" }):
		add(weightEveryName, "it can reach every public name")
	case has(func(host string) bool { return strings.HasPrefix(host, "*.") }):
		add(weightBelowName, "it can reach all names below another")
	case len(e.Allow) > 0:
		add(weightNames, "it can reach hosts that the policy names: %d", len(e.Allow))
	}
	if len(e.Private) > 0 {
		add(weightPrivate, "it can reach servers that are not public: %d", privateHosts(e))
	}
	if e.Intercept {
		add(weightIntercept, "TLS is opened at the door")
	}
	for _, s := range e.Secrets {
		add(weightSecret, "the secret %s is added to requests to %s", s.Secret, s.Host)
		if !e.Intercept {
			add(weightBareHTTP, "the secret %s travels in plain text", s.Secret)
		}
	}
}

// privateHosts counts hosts: the policy may name one host with several ports.
func privateHosts(e *policies.Egress) int {
	hosts := make(map[policies.Host]bool)
	for _, r := range e.Private {
		hosts[r.Host] = true
	}
	return len(hosts)
}
