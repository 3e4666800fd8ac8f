// Package store keeps data that must survive the program: approvals, todos, plans. There is
// one database per state directory, shared by every process of its user. A room defines its
// tables with a Schema, gets Tables, and works with them in transactions.
//
// Most rooms use a Book: their tables as one process sees them for one workspace, with a
// clock, and with the names of processes that are gone. Rows of a tenant have an Owner.
// Rows reads rows, and Watch waits for changes.
//
// Nothing is opened, made or locked before the first transaction, so a command that stores
// nothing costs nothing. When Write returns nil, its changes are on the disk: neither a
// killed process nor a crash of the machine loses them.
package store
