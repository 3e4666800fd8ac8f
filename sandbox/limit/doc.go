// Package limit has the words that the packages of the sandbox share about limits:
// how a limit is enforced ([Enforcement]), what a command used of it ([Usage]), and
// how the sandbox refuses what is beyond it ([Refusal], [ErrTooMany]). The limits
// themselves, with their names and values, are in package policies.
//
// Package sandbox and the packages below it use these words, and so do the callers
// of a box. This package has no behaviour and imports only policies, so every
// package of the sandbox can import it.
package limit
