// Package pin decides what of other people's servers is trusted: it keeps digests of what was
// trusted, compares them with what a server serves now, and withholds what differs until a
// person has decided. Package upstream asks it before it starts a server and whenever it has
// read the server's lists.
//
// Pinned is everything of a server that a model reads, and what runs:
//
//   - tools, prompts and resource templates, each with all of its members, known or not;
//   - the server's instructions and name;
//   - the command with its arguments and the digest of its program, lock or image, or the URL.
//
// A definition is compared by the SHA-256 of its canonical form, so neither the order of
// members nor that of tools matters.
//
// # Files, in the order in which they call each other
//
//   - book.go is the Book: Judge, and the cache that makes it cheap where nothing changed.
//   - decide.go has what people do: decide, forget, export, import, look at the history.
//   - question.go shows what waits for a person, old beside new.
//   - rows.go keeps the records of servers in the database, and chain.go the log of decisions,
//     whose entries are chained: a record that is not the one of the log holds everything.
//   - judge.go compares a record with what is served, without a database.
//   - offer.go takes apart what is served.
//   - known.go is the text form of pins, known_upstreams, one line each.
//   - scan.go and phrases.go look for texts that are made to deceive. They only choose what a
//     person is asked about.
//   - diff.go shows two definitions with their hidden characters.
//   - walk.go takes a definition apart into its values, for the scan and for diffs.
//   - canonical.go is the canonical form of JSON.
//
// # Rules
//
// Nothing is trusted that could not be compared: a definition without a canonical form, a
// record that cannot be read or that a newer belljar wrote, a log whose chain is broken. The
// zero Verdict offers nothing. Only a person decides, and the decision is for the digests that
// this person saw. The decision of one tenant is never looked at for another one.
//
// Not protected against: somebody who can write the state directory as belljar's user can
// write a chain that is whole. A server that misbehaves without changing a definition or
// program is the business of the box and the policy.
package pin
