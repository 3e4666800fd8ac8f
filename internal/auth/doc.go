// Package auth finds out whose a bearer token is. There are three kinds of token, told
// apart by their form and never tried one after the other:
//
//   - bj_ID_SECRET_CHECK is a token of belljar's own, from `belljar token create`. A Book
//     keeps what is known of it, and not the token: the HMAC of its secret.
//   - Three parts with dots between them are an access token (JWT) of an issuer that the
//     policy names. Its signature is checked with the keys of the issuer, which are fetched.
//   - Anything else is one whose SHA-256 the operator keeps where the policy says.
//
// An Authenticator answers for a server. It keeps what it needs in memory and follows the
// Book, so a token that another process revokes is refused within a second. The commands
// use the Book alone.
//
// A token is in none of the errors, logs and records: they name it by its id.
package auth
