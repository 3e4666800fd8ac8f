// Package job keeps what goes on in the background: commands, and calls that a
// client no longer waits for. Each is a Job of a tenant and a workspace, with one
// number under which agents know it and a handle under which clients do. What it
// writes is spooled beside the database, so that its end is known, and its output
// can be read, when the program that ran it is gone.
package job
