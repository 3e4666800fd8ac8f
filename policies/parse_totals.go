package policies

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// totals reads what all boxes of one tenant may use together; n is nil if the policy states
// no totals. A total below the limit of one box is a fault: it would be that box's limit
// under another name. A total that is not stated is at least the limit of the largest
// profile.
func (d *policyDecoder) totals(n *yaml.Node) Totals {
	promised := d.promises(names(d.p.profiles))
	var t Totals
	totalLimits.usual(&t)
	t.Memory, t.Pids, t.CPU = max(t.Memory, int64(promised["memory"].most)), max(t.Pids, int64(promised["pids"].most)), max(t.CPU, promised["cpu"].most)
	t.Disk = max(t.Disk, int64(promised["disk"].most))
	if n == nil {
		return t
	}
	o, ok := d.mapping(n, "totals", totalsShape)
	if !ok {
		return t
	}
	d.boxes = o.get(totalBoxes) != nil
	totalLimits.read(d.decoder, o, &t)
	d.keepPromises(o, t, promised)
	return t
}

// promises returns the most that any of some profiles gives to one box, by the key of the
// total.
func (d *policyDecoder) promises(of []string) map[string]promise {
	var memory, pids, cpu, disk promise
	for _, name := range of {
		profile, ok := d.p.profiles[name]
		if !ok {
			continue // a missing value is a fault of its own
		}
		l := profile.limits
		needs, what := l.Memory, "memory"
		if profile.storage == StorageMemory {
			needs, what = l.Memory+l.Tmp, "memory and tmp"
		} else {
			disk.raise(float64(l.Tmp), name, fmt.Sprintf("tmp of %d bytes on disk", l.Tmp))
		}
		memory.raise(float64(needs), name, fmt.Sprintf("%s of %d bytes", what, needs))
		pids.raise(float64(l.Pids), name, fmt.Sprintf("pids of %d", l.Pids))
		cpu.raise(l.CPU, name, fmt.Sprintf("cpu of %v", l.CPU))
	}
	return map[string]promise{"memory": memory, "pids": pids, "cpu": cpu, "disk": disk}
}

// keepPromises adds a fault for each total in a mapping that is below what a profile gives
// to one box.
func (d *policyDecoder) keepPromises(o object, t Totals, promised map[string]promise) {
	for _, one := range totalLimits {
		if v := o.get(one.key); v != nil {
			d.keeps(v, one.value(&t), promised[one.key])
		}
	}
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

// keeps adds a fault if a total is below what a profile gives to one box.
func (d *policyDecoder) keeps(n *yaml.Node, total float64, p promise) {
	if total < p.most {
		d.Fault(n, "raise the total, or lower the limit of the profile", "the total is %s, less than profile %s gives to one box: %s", n.Value, p.profile, p.what)
	}
}
