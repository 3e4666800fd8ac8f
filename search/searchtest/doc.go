// Package searchtest provides search engines for tests: servers on the loopback
// interface that answer under the names of real engines, in their formats, and
// misbehave as they do.
//
//	pages.go      what engines answer, made up in the format of each
//	behave.go     what they do instead: hang, block, break off, flood
//	server.go     one TLS server for all names, with an authority of its own
//	door.go       leads a fan there through a real egress door
//
// No program contains it.
package searchtest
