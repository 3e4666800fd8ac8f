package mcp

import (
	"net/http"
	"strconv"
	"time"
)

// Answers to a request for a place. The first is the same whether or not the place exists,
// so that nobody can find out which places exist.
const (
	noPlace   = "there is no such place, or you may not enter it; ask the operator of this server which places you may enter"
	shutPlace = "the place cannot be opened now; tell the operator of this server, whose log states the cause"
)

// NoPlace answers a request for a place that does not exist, or that its caller may not
// enter.
func NoPlace(rw http.ResponseWriter) { http.Error(rw, noPlace, http.StatusNotFound) }

// placeRetry is the time after which a client may try again if its place cannot be opened.
const placeRetry = 5 * time.Second

// HandlerOf is Handler for a process with several servers, each for one place of work: s
// finds out the caller, and pick returns the server for the request. The caller is the one
// that login has found, or Config.Tenant of s if clients need no token. If pick returns
// nil, the place does not exist for the caller. The servers must have the same HTTP
// configuration as s.
func (s *Server) HandlerOf(pick func(r *http.Request, caller Identity) (*Server, error)) http.Handler {
	return handlerOf(s, s.routed.enter, pick)
}

// handlerOf is HandlerOf with a function enter that finds out the caller of a request.
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
