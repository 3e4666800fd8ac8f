package policies

import _ "embed"

//go:embed default.yaml
var defaultText []byte

// Default is the bundled policy, for those who give none: any command in a box
// without network. It parses the text anew at each call.
func Default() *Policy {
	p, err := Parse("default.yaml", defaultText)
	if err != nil {
		// The text is part of the program: it can only be broken in the source.
		panic("policies: " + err.Error())
	}
	return p
}
