// Package hooks runs programs of the operator when something happens: before a
// call, after it, when a session begins or a job ends.
//
// A hook is a file in a folder for its event, for example
// tool_use/sync-10-check.sh. It gets the event in three forms: JSON on standard
// input, arguments, and environment variables. If its name begins with "sync-",
// belljar waits for it, and it may refuse a call that is about to run; belljar does
// not wait for the others. A file whose name begins with "_" or "." is not a hook.
//
// A hook can refuse what the policy allows, and never allow what the policy refuses.
// If a hook should answer and does not (it fails, hangs, or floods), the call is
// refused.
//
// This package does not decide where hooks run: one [Runner] runs the hooks that the
// operator chose to run outside a box, and another one runs all others in a box.
package hooks
