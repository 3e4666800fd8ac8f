// Package hook runs programs of the operator when something happens: before a
// call, after it, when a session begins or a job ends.
//
// A hook is a file in a folder for its event, as tool_use/sync-10-check.sh. It is
// given the event as JSON on standard input, as arguments and as variables. One
// whose name begins with "sync-" is waited for, and may refuse a call that is
// about to run; the others are started and not waited for. A name that begins
// with "_" or "." is that of no hook.
//
// A hook can refuse what the policy lets through, and never let through what the
// policy refuses. A hook that should answer and does not (it fails, hangs, or
// floods) has refused.
//
// Where hooks run is not decided here: one [Runner] runs those that the operator
// named for that outside a box, and another one all others in a box.
package hook
