// Package login logs in at remote MCP servers by OAuth. It follows the section "Authorization"
// of MCP 2025-11-25 and 2026-07-28. A person logs in once, by Login. From then
// on a Source gives the tokens, and its HTTPClient puts them into requests.
//
// Each request, also those to the authorization server, is made by the client that the caller
// gives, which decides what may be dialled. No other client is ever used.
//
// # Files, each calling those below it:
//
//   - login.go is Login: all steps of a login in their order.
//   - client.go is the client that puts tokens into requests and sees that one is refused.
//   - source.go is the Source, which renews tokens, one renewal at a time.
//   - book.go is the Book: the logins of a state directory.
//   - seal.go encrypts a login for its owner.
//   - flow.go is the Flow: the URL for the person, and what the answer must be.
//   - redirect.go listens on this machine for the answer.
//   - register.go decides how belljar is known to an authorization server.
//   - grant.go asks a token endpoint for tokens.
//   - discover.go is Discover: from a challenge or a server's URL to checked endpoints.
//   - fetch.go makes the requests, with bounds.
//   - token.go is the Token, which nothing prints.
//   - address.go says which URLs may be used, and which are the same.
//
// # What is trusted
//
// The server's URL comes from the operator, and all else from the server and from what it
// names. So metadata count only from the server's own origin and for a resource that covers
// the server; an authorization server must call itself as the server calls it, in its metadata
// and in its answer; and no endpoint is on this machine unless the server is. The person sees
// at the authorization server for whom the login is. A server that names an authorization
// server of its own choice gets nothing by it: the tokens made there are good for that server
// only, and nobody else's tokens go to it.
//
// Tokens are kept per tenant, name and URL of a server. All three are authenticated with the
// tokens, so whoever can write the database can remove a login and cannot move it.
//
// # What is not used
//
// The package auth of the go-sdk and golang.org/x/oauth2 make the same flow. Their refresh
// does not send the parameter resource, which MCP demands, and an error of theirs contains the
// body of the answer. The discovery of oauthex accepts documents of 1 MiB from any host and
// compares resources as texts, which refuses servers whose metadata name their whole host.
// From oauthex come the parser of challenges and the registration of clients.
package login
