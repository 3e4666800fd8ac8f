// Package callback keeps what an agent asked to be told later: messages that
// come back after a delay, once or again and again.
//
// A [Book] holds the callbacks of every tenant of one workspace in the state
// database, so they survive the program. Each second it looks who is due. A
// callback fires only while its tenant is idle, one a second, and is then armed
// with its whole delay again: what was missed meanwhile (a busy hour, a program
// that was down) is not made up for.
//
// What has fired is a [Delivery], kept until somebody takes it: with the next
// result of a tool ([Book.Take]), or by waiting for it ([Book.Wait]). Config.Post
// carries it further, as to an inbox.
package callback
