package policies

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Channel says on which ways the questions of AskUserQuestion reach a person. The
// zero value refuses them. The questions of the policy about calls are separate:
// see Asking.
type Channel int

// The channels, from the closed one up.
const (
	ChannelDeny    Channel = iota // the call is refused
	ChannelDefault                // nobody is asked; the answer says so and repeats what the agent recommended
	ChannelConsole                // at belljar ask alone: a client may answer in a person's place
	ChannelElicit                 // by a form of the client, and at belljar ask
)

// channels are the words of policies for them, by their numbers.
var channels = []string{"deny", "default", "console", "elicit"}

// String is the channel as policies spell it.
func (c Channel) String() string {
	if c < 0 || int(c) >= len(channels) {
		return fmt.Sprintf("Channel(%d)", int(c))
	}
	return channels[c]
}

// askTool is the tool whose questions have a channel.
const askTool = "AskUserQuestion"

// Channel is how questions of agents reach a person.
func (p *Policy) Channel() Channel { return p.channel }

// channelOf reads ask. If ask cannot be read, nobody is asked.
func (d *decoder) channelOf(n *yaml.Node) Channel {
	return Channel(max(d.word(n, "ask", channels...), int(ChannelDeny)))
}

// unasked refuses a question if the policy lets no agent ask one.
func (p *Policy) unasked(f Facts, profile string) (Decision, bool) {
	if f.Tool != askTool || p.channel != ChannelDeny {
		return Decision{}, false
	}
	return Decision{
		Verdict: Deny, Rule: ruleQuestions, Source: p.asksAt, Parts: 1, Layer: LayerSystem, Profile: profile,
		Reason:  "Nobody is there to answer questions of agents.",
		Instead: "Decide yourself where that does no harm, say in your answer what you assumed, and leave the rest undone.",
	}, true
}

// unaskable notes rules about questions that nobody can put.
func (l *linter) unaskable() {
	if l.p.channel != ChannelDeny {
		return
	}
	for i := range l.rules {
		r := &l.rules[i]
		if r.verdict == Deny || len(r.match.tools) == 0 {
			continue
		}
		only := true
		for _, e := range r.match.tools {
			only = only && len(e.choice) == 1 && e.choice[0] == askTool
		}
		if only {
			l.add(i, l.at(i, -1, "match"), "no-questions", LintError,
				fmt.Sprintf("rule %s can decide nothing: ask is deny, which refuses %s whatever rules say", r.id, askTool),
				"the call is refused before a rule is looked at", "write ask: console or ask: elicit, or remove the rule")
		}
	}
}
