// Package websession keeps the sessions of HTTP clients in the state directory, so that
// they continue after a restart of the server. Package mcp uses a [Book] for this, and
// decides which clients may have a session. A Book finds a session by its id alone.
//
// A row contains the digest of the id, and not the id itself. So a copy of the database
// does not give access to a session.
package websession
