package policies

import "fmt"

// Channel says how the questions of AskUserQuestion reach a person. The zero value refuses
// them. The questions of the policy about calls are separate: see Asking.
type Channel int

// The channels, the strictest first.
const (
	ChannelDeny    Channel = iota // the call is refused
	ChannelDefault                // nobody is asked; the answer says so and repeats what the agent recommended
	ChannelConsole                // only at belljar ask: a client may answer in a person's place
	ChannelElicit                 // by a form of the client, and at belljar ask
)

// channels are the words of policies for the channels, by number.
var channels = []string{"deny", "default", "console", "elicit"}

// String returns the channel as policies spell it.
func (c Channel) String() string {
	if c < 0 || int(c) >= len(channels) {
		return fmt.Sprintf("Channel(%d)", int(c))
	}
	return channels[c]
}

// askTool is the tool whose questions have a channel.
const askTool = "AskUserQuestion"

// questions is what a policy says about the questions of agents.
type questions struct {
	channel Channel
	source  Source // place of channel in the policy
}

// Channel returns how questions of agents reach a person.
func (p *Policy) Channel() Channel { return p.questions.channel }
