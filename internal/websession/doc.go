// Package websession keeps the sessions of HTTP clients in the state directory, so that
// they go on after a restart of the server. Package mcp uses a [Book] for that, and decides
// which clients may have a session. A Book finds a session by its id alone.
//
// A row has the digest of the id, and not the id: a copy of the database opens no session.
package websession
