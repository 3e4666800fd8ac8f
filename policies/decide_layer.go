package policies

// Narrow returns the decision about a call under the layer: the same decision or
// a stricter one. Its grant never allows more than before.
func (l *Layer) Narrow(d Decision, f Facts) Decision {
	d = l.narrow(d, f, pieces(f))
	d.offer(d.offered().judgedUnder(l))
	return d
}

// narrow is Narrow for a call that has been taken apart.
//
// It returns the decision of the layers above or a stricter one of this layer. Either
// has a clipped grant and is bound by what both say: see bindAll. A stricter decision
// grants nothing; if it asks, a yes gives no more than the layers above offered.
func (l *Layer) narrow(d Decision, f Facts, pieces []piece) Decision {
	profiles := []string{d.Profile}
	if granted := d.offered().profile; granted != "" && granted != d.Profile {
		profiles = append(profiles, granted) // what holds in either holds for the call
	}
	kept := d.Audit
	for _, profile := range profiles {
		own, _ := l.rules.judge(f, profile, pieces)
		kept = kept.below(own.Audit)
		if own.Verdict < d.Verdict { // stricter: Deny < Ask < Allow
			own.Layer, own.Profile, own.Policy, own.Grant, own.pending = l.kind, d.Profile, d.Policy, Grant{}, nil
			own.offer(d.offered())
			d, own = own, d
		}
		d.bindAll(own)
	}
	d.Audit = kept
	d.offer(d.offered().clipped(l.clip))
	return d
}

// sayBelow returns what each layer that objects says about one part of a call.
func sayBelow(layers []*Layer, c inquiry, pc *piece) []Said {
	var all []Said
	c.seen = nil // the caller wants the matches of the policy, not those of the layers
	for _, l := range layers {
		o := l.rules.weigh(&c, pc)
		if o.skip || o.rule == nil && o.verdict == Allow {
			continue // it does not object
		}
		one := l.rules.decision(c.tool, pc, o)
		all = append(all, Said{Layer: l.kind, Verdict: one.Verdict, Rule: one.Rule, Source: one.Source})
	}
	return all
}
