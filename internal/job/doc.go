// Package job keeps the records of background work: commands, and calls that a client
// does not wait for any longer. Each is a Job of a tenant and a workspace, with a number
// for agents and a handle for clients. Its output is spooled beside the database, so
// that its end is known and its output can be read after the program that ran it has
// gone.
package job
