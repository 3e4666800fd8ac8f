package sandbox

import (
	"context"

	"belljar.dev/policies"
)

// regrant gives the box the egress and the published ports of the policy that
// Regrant was last called with, if it was called. Concurrent calls wait for each
// other, so the last one uses the newest policy.
func (b *Box) regrant(ctx context.Context) {
	b.regranting.Lock()
	defer b.regranting.Unlock()
	p := b.home.holds()
	if p == nil {
		return
	}
	e, publish := &policies.Egress{}, []policies.PortRange(nil)
	if g, ok := p.Regrant(b.grant); ok {
		b.sup.Allowance(g) // its bound may have changed
		publish = g.Publish()
		if g.Network() == b.grant.Network() && g.Egress().Intercept == b.grant.Egress().Intercept {
			e = g.Egress()
		}
	}
	b.life.waking.RLock() // the door of a parked box is set now, and opened when the box wakes
	if err := b.means.door.set(ctx, e); err != nil {
		b.sup.cfg.Log.Error("change the egress of a box; it is closed", "box", b.id, "err", err)
		_ = b.means.door.set(ctx, &policies.Egress{}) // an empty policy is always valid
	}
	b.life.waking.RUnlock()
	b.table.mu.Lock()
	b.ports.allowed = publish
	b.table.mu.Unlock()
	for _, p := range b.Published() {
		if !covers(publish, p.Port) {
			_ = p.Close()
		}
	}
}
