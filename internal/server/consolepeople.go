package server

import (
	"context"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/console"
	"belljar.dev/policies"
)

// peopleFor is the time for which the list of known people is used before it is read again.
const peopleFor = time.Second

// knownPeople contains the people whom the policy lets into the console from other
// machines. It is safe for concurrent use.
type knownPeople struct {
	server *Server

	mu   sync.Mutex
	list []console.Known // guarded by mu
	read time.Time       // guarded by mu: time at which the list was made
	said string          // guarded by mu: last fault that was logged
}

// now returns the people of the policy in force. It leaves out a person whose token cannot
// be read or equals the token of another person.
func (k *knownPeople) now(ctx context.Context) []console.Known {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.read) < peopleFor {
		return k.list
	}
	s := k.server
	holds := s.gate.now.Load()
	var all []auth.Digest
	var faults []tokenFault
	byName := make(map[string]console.Known)
	if len(policies.People(holds)) > 0 {
		boxes := config.Boxes(holds, s.workspaces(), s.State)
		for _, p := range policies.People(holds) {
			one, err := readToken(ctx, "person", p.Name, p.Token, boxes)
			if err != nil {
				faults = append(faults, tokenFault{p.Name, err})
				continue
			}
			role, err := console.ParseRole(p.Role)
			if err != nil { // does not happen: a policy has only these roles
				continue
			}
			all, byName[p.Name] = append(all, one), console.Known{Name: p.Name, Role: role, Scope: scopeOf(p.Tenants), Sum: one.Sum}
		}
	}
	all, shared := distinct("person", all)
	k.list = nil
	for _, one := range all {
		k.list = append(k.list, byName[one.Tenant])
	}
	texts := []string{}
	for _, f := range append(faults, shared...) {
		texts = append(texts, f.err.Error())
	}
	if said := strings.Join(texts, "; "); said != k.said {
		if k.said = said; said != "" {
			s.Log.Error("people cannot log in at the console, since their tokens are not known", "err", said)
		}
	}
	k.read = time.Now()
	return k.list
}

// scopeOf returns the scope of a person of the policy. If tenants is nil, the scope is all
// tenants.
func scopeOf(tenants []string) console.Scope {
	if tenants == nil {
		return console.Everything()
	}
	return console.ScopeOf(tenants)
}
