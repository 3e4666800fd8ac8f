// Package auth finds out which caller a bearer token belongs to. There are three kinds of
// token. Their form tells them apart, and they are never tried one after the other:
//
//   - bj_ID_SECRET_CHECK is a token of belljar's own, from `belljar token create`. A Book
//     stores the description of the token and the HMAC of its secret, and not the token.
//   - Three parts with dots between them are an access token (JWT) of an issuer that the
//     policy names. Its signature is checked with the keys of the issuer, which are fetched.
//   - Any other text is a token whose SHA-256 the operator keeps at the place that the
//     policy names.
//
// An Authenticator checks tokens for a server. It keeps what it needs in memory and follows
// the Book, so a token that another process revokes is refused within a second. The commands
// use only the Book.
//
// No error, log or record contains a token: they name it by its id.
package auth
