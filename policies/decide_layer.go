package policies

// Narrow returns the decision about a call under the layer: the same decision or
// a stricter one. Its grant never allows more than before, and keeps the layer for the
// programs and URLs of the call, about which the policy decides later.
func (l *Layer) Narrow(d Decision, f Facts) Decision {
	d = l.narrow(d, f, pieces(f))
	d.offer(d.offered().judgedUnder(l))
	return d
}

// narrow does the work of Narrow for a call that has been taken apart.
//
// It returns d, the decision of the layers above, or the decision of this layer if that is
// stricter. The grant of both lacks the things that the layer takes away (clipped), and the
// limits and obligations of both decisions hold (bindAll). A stricter decision grants
// nothing immediately; if a person says yes to it, the call gets at most what d offered.
func (l *Layer) narrow(d Decision, f Facts, pieces []piece) Decision {
	profiles := []string{d.Profile}
	if granted := d.offered().profile; granted != "" && granted != d.Profile {
		profiles = append(profiles, granted) // the layer's rules for each of the two profiles bind the call
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

// sayBelow returns what the layers below the policy say about one part of a call. Layers
// that have no rule about it and do not object are left out.
func sayBelow(layers []*Layer, c inquiry, pc *piece) []Said {
	var all []Said
	c.seen = nil // the caller wants the matches of the policy, not those of the layers
	for _, l := range layers {
		o := l.rules.weigh(&c, pc)
		if o.skip || o.rule == nil && o.verdict == Allow {
			continue // the layer does not object
		}
		one := l.rules.decision(c.tool, pc, o)
		all = append(all, Said{Layer: l.kind, Verdict: one.Verdict, Rule: one.Rule, Source: one.Source})
	}
	return all
}
