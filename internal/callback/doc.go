// Package callback stores the reminders that an agent has asked for: messages that are
// delivered after a delay, once or repeatedly.
//
// A [Book] keeps the callbacks of every tenant of one workspace in the state database,
// so they survive the program. Each second it looks for callbacks that are due. A
// callback fires only while its tenant is idle, at most one per second, and is then armed
// with its whole delay again. Firings that were missed (because the tenant was busy, or
// while the program was down) are not repeated later.
//
// A callback that has fired is a [Delivery]. It is kept until it is taken: together with
// the next result of a tool ([Book.Take]), or by a call that waits ([Book.Wait]).
// Config.Post delivers it to a further place, for example an inbox.
package callback
