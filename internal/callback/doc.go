// Package callback keeps what an agent asked to be reminded of: messages that come back
// after a delay, once or again and again.
//
// A [Book] keeps the callbacks of every tenant of one workspace in the state database,
// so they survive the program. Each second it looks which are due. A callback fires
// only while its tenant is idle, one a second, and is then armed with its whole delay
// again: firings that were missed meanwhile (in a busy hour, or while the program was
// down) are not made up for.
//
// A callback that has fired is a [Delivery], kept until it is taken: with the next
// result of a tool ([Book.Take]), or by waiting for it ([Book.Wait]). Config.Post
// delivers it to a further place, for example an inbox.
package callback
