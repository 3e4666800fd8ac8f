// Package login logs in at remote MCP servers by OAuth. It follows the section
// "Authorization" of MCP 2025-11-25 and 2026-07-28. A person logs in once, by Login. From
// then on a Source gives the tokens, and its HTTPClient puts them into requests.
//
// Each request, also those to the authorization server, is made by the client that the caller
// gives, which decides what may be dialled. No other client is ever used.
//
// # Files, each calling those below it:
//
//   - login.go is Login: all steps of a login in their order.
//   - client.go is the client that puts tokens into requests and notices when a token is
//     refused.
//   - source.go is the Source, which renews tokens, one renewal at a time.
//   - book.go is the Book: the logins of a state directory.
//   - seal.go encrypts a login for its owner.
//   - flow.go is the Flow: the URL for the person, and what the answer must be.
//   - redirect.go listens on this machine for the answer.
//   - register.go decides how belljar identifies itself to an authorization server.
//   - grant.go asks a token endpoint for tokens.
//   - discover.go is Discover: from a challenge or a server's URL to checked endpoints.
//   - fetch.go makes the requests, with bounds.
//   - token.go is the Token, whose value no method prints.
//   - address.go decides which URLs may be used, and which URLs are the same.
//
// # What is trusted
//
// The server's URL comes from the operator, and all other data come from the server and from
// the places that it names. So metadata count only from the server's own origin and for a
// resource that covers the server; an authorization server must call itself as the server
// calls it, in its metadata and in its answer; and no endpoint is on this machine unless the
// server is. The person sees at the authorization server for whom the login is. A server that
// names an authorization server of its own choice gains nothing: the tokens made there are
// valid for that server only, and no other server's tokens are sent to it.
//
// Tokens are kept per tenant, name and URL of a server. All three are authenticated with the
// tokens, so a person who can write the database can remove a login and cannot move it.
//
// # What is not used
//
// The package auth of the go-sdk and golang.org/x/oauth2 implement the same flow. Their
// refresh does not send the parameter resource, which MCP demands, and their errors contain
// the body of the answer. The discovery of oauthex accepts documents of 1 MiB from any host
// and compares resources as texts, which refuses servers whose metadata name their whole
// host. This package uses oauthex only for the parser of challenges and the registration of
// clients.
package login
