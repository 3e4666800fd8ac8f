// Package pin decides which parts of other people's servers are trusted. It keeps digests of
// the trusted definitions, compares them with what a server serves now, and withholds what
// differs until a person has decided. Package upstream calls it before it starts a server and
// whenever it has read the server's lists.
//
// Everything of a server that a model reads is pinned, and also what runs:
//
//   - tools, prompts and resource templates, each with all of its members, known or not;
//   - the server's instructions and name;
//   - the command with its arguments and the digest of its program, lock or image, or the
//     URL.
//
// A definition is compared by the SHA-256 of its canonical form, so neither the order of
// members nor that of tools matters.
//
// # Files, in the order in which they call each other
//
//   - book.go is the Book: Judge, and the cache that makes it cheap if nothing has changed.
//   - decide.go has the actions of people: decide, forget, export, import, look at the
//     history.
//   - question.go shows the changes that wait for a person, the old next to the new.
//   - rows.go keeps the records of servers in the database, and chain.go the log of
//     decisions, whose entries are chained. If a record differs from the log, everything of
//     its server is held.
//   - judge.go compares a record with what is served, without a database.
//   - offer.go splits what a server serves into its definitions.
//   - known.go is the text form of pins, known_upstreams, one line each.
//   - scan.go and phrases.go look for texts that are made to deceive. They only choose the
//     texts that a person is asked about.
//   - diff.go shows two definitions with their hidden characters.
//   - walk.go splits a definition into its values, for the scan and for diffs.
//   - canonical.go is the canonical form of JSON.
//
// # Rules
//
// Nothing is trusted that could not be compared: a definition without a canonical form, a
// record that cannot be read or that a newer belljar wrote, a log whose chain is broken. The
// zero Verdict offers nothing. Only a person decides, and the decision is for the digests
// that this person saw. The decision of one tenant is never used for another tenant.
//
// The package does not protect against two things. A program that can write the state
// directory as belljar's user can write a valid chain. A server can misbehave without a
// change of a definition or program; the box and the policy restrict such a server.
package pin
