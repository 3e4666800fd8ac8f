// Package store keeps what must survive the program: approvals, todos, plans.
// There is one database per state directory, shared by every process of its
// user. A room names its tables by a Schema and gets Tables back; what it does
// with them are transactions.
//
// A Book is what most rooms make of that: their tables as one process sees them for
// one workspace, with a clock, and with the processes that have gone. Rows of a
// tenant have an Owner. Rows reads rows, and Watch waits for changes.
//
// Nothing is opened, made or locked before the first transaction, so a command
// that keeps nothing pays nothing. A Write that returned nil is on the disk:
// neither a killed process nor a lost machine takes it back.
package store
