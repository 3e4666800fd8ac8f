// Package config finds and reads what the operator keeps outside of every box: the
// workspace that is given to boxes, the policy with its layers, the state directory and
// secrets. The commands and internal/server use it, so that all of them mean the same
// file by the same flag.
//
// belljar believes what it reads here. So each place is checked against the boxes of the
// policy: an agent that could write it would make its own rules.
package config
