// Package job keeps the records of background work: commands, and calls whose client no
// longer waits for them. Each is a Job of a tenant and a workspace, with a number for
// agents and a handle for clients. Its output is spooled next to the database, so that the
// end of the job is known and its output can be read after the program that ran the job is
// gone.
package job
