package mcp

import (
	"net/http"
	"strconv"
	"time"
)

// Answers to a request for a place. The first is the same whether or not the place exists,
// so nobody learns which ones there are.
const (
	noPlace   = "there is no such place; the operator of this server knows which places you may enter"
	shutPlace = "the place cannot be opened now; the log of this server says why, so tell its operator"
)

// NoPlace answers a request for a place that does not exist, or that its caller may not
// enter.
func NoPlace(rw http.ResponseWriter) { http.Error(rw, noPlace, http.StatusNotFound) }

// placeRetry is when a client may try again whose place cannot be opened.
const placeRetry = 5 * time.Second

// HandlerOf is Handler for a process with several servers, each for one place of work: s
// finds out who the caller is, and pick returns the server of the request. The caller is
// the one that login has found, or Config.Tenant of s where clients need no token. If pick
// returns nil, there is no such place for the caller. The servers must have the same HTTP
// configuration as s.
func (s *Server) HandlerOf(pick func(r *http.Request, caller Identity) (*Server, error)) http.Handler {
	return handlerOf(s, s.routed.enter, pick)
}

// handlerOf is HandlerOf for requests whose caller enter finds out.
func handlerOf(s *Server, enter func(http.ResponseWriter, *http.Request) (*http.Request, bool), pick func(r *http.Request, caller Identity) (*Server, error)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r, ok := enter(rw, r)
		if !ok {
			return
		}
		server, err := pick(r, s.cfg.callerOf(r.Context()))
		switch {
		case err != nil:
			rw.Header().Set("Retry-After", strconv.Itoa(int(placeRetry.Seconds())))
			http.Error(rw, shutPlace, http.StatusServiceUnavailable)
		case server == nil:
			NoPlace(rw)
		default:
			server.routed.serve(rw, r)
		}
	})
}
