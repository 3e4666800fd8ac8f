// Package config finds and reads what the operator keeps outside of every box: the
// workspace that is given to boxes, the policy with its layers, the state directory and
// secrets. The commands and internal/server use it, so that a flag means the same file
// in all of them.
//
// belljar trusts what it reads here. Therefore each path is checked against the boxes of
// the policy: an agent that could write there would make its own rules.
package config
