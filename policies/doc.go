// Package policies decides what an agent's call may do.
//
// A policy is a YAML file. Parse reads it and reports every fault at once;
// Decide answers one call, described by Facts, with a Decision: the strictest
// verdict of all rules that match any part of the call, and, where it is
// allow, the Grant that every room of belljar asks for before it works.
//
// The package knows no kernel, network, clock or file: a decision is a pure
// function of the policy and the facts.
package policies
