package policies

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// totals reads what all boxes of one tenant may use together; n is nil where
// the policy does not say. A total below the limit of one box would be that box's
// limit under another name, so it is a fault. A total that is not named is at
// least the limit of the largest profile.
func (d *policyDecoder) totals(n *yaml.Node) Totals {
	profiles := d.p.profiles
	var memory, pids, cpu promise
	for _, name := range names(profiles) {
		l := profiles[name].limits
		needs, what := l.Memory, "memory"
		if profiles[name].storage == StorageMemory {
			needs, what = l.Memory+l.Tmp, "memory and tmp"
		}
		memory.raise(float64(needs), name, fmt.Sprintf("%s of %d bytes", what, needs))
		pids.raise(float64(l.Pids), name, fmt.Sprintf("pids of %d", l.Pids))
		cpu.raise(l.CPU, name, fmt.Sprintf("cpu of %v", l.CPU))
	}
	var t Totals
	totalLimits.usual(&t)
	t.Memory, t.Pids, t.CPU = max(t.Memory, int64(memory.most)), max(t.Pids, int64(pids.most)), max(t.CPU, cpu.most)
	if n == nil {
		return t
	}
	o, ok := d.mapping(n, "totals", totalsShape)
	if !ok {
		return t
	}
	promised := map[string]promise{"memory": memory, "pids": pids, "cpu": cpu}
	for _, one := range totalLimits {
		if v := o.get(one.key); v != nil && one.read(d.decoder, v, &t) {
			d.keeps(v, one.value(&t), promised[one.key])
		}
	}
	return t
}

// promise is the most of one thing that a profile gives to one box. Sizes are
// below 2^53 and exact in a float.
type promise struct {
	most          float64
	profile, what string
}

func (p *promise) raise(value float64, profile, what string) {
	if value > p.most {
		*p = promise{value, profile, what}
	}
}

// keeps notes a fault where a total is below what one box was promised.
func (d *policyDecoder) keeps(n *yaml.Node, total float64, p promise) {
	if total < p.most {
		d.Fault(n, "raise the total, or lower the limit of the profile", "the total is %s, less than profile %s gives to one box: %s", n.Value, p.profile, p.what)
	}
}
