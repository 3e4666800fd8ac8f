package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies"
)

// placeHandlers answers `belljar place` about the places of a fleet.
type placeHandlers struct{ server *Server }

// moveRequest is the request to a front to move a place.
type moveRequest struct {
	Place string `json:"place"`
	To    string `json:"to,omitempty"` // name of a worker; empty for any other worker
}

func (h *placeHandlers) handle(mux *http.ServeMux) {
	front, log := h.server.fleet, h.server.Log
	mux.HandleFunc("POST "+control.StreamPath+"places", func(w http.ResponseWriter, _ *http.Request) {
		control.Respond(w, http.StatusOK, front.Places())
	})
	mux.HandleFunc("GET /fleet/place", func(w http.ResponseWriter, r *http.Request) {
		control.Respond(w, http.StatusOK, front.Place(r.URL.Query().Get("place")))
	})
	mux.HandleFunc("POST /fleet/move", func(w http.ResponseWriter, r *http.Request) {
		var want moveRequest
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
			control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
			return
		}
		info, err := front.Move(r.Context(), want.Place, want.To)
		respond(w, info, err)
		log.Info("a move of a place was requested", "place", policies.Clip(want.Place, 256), "by", control.Caller(r), "err", err)
	})
	mux.HandleFunc("POST /fleet/stop", func(w http.ResponseWriter, r *http.Request) {
		place := r.URL.Query().Get("place")
		err := front.StopMove(r.Context(), place)
		respond(w, front.Place(place), err)
		log.Info("the end of a move was requested", "place", policies.Clip(place, 256), "by", control.Caller(r), "err", err)
	})
	mux.HandleFunc("POST "+control.StreamPath+"export", func(w http.ResponseWriter, r *http.Request) {
		place := r.URL.Query().Get("place")
		out := &lateStatus{w: newTimedStream(w, r)}
		err := front.Export(r.Context(), place, out)
		log.Info("an export of a place was requested", "place", policies.Clip(place, 256), "by", control.Caller(r), "err", err)
		switch {
		case err == nil:
		case out.begun:
			panic(http.ErrAbortHandler) // so that the command does not take a part for the whole
		default:
			control.Respond(w, http.StatusConflict, err.Error())
		}
	})
	mux.HandleFunc("POST "+control.StreamPath+"import", func(w http.ResponseWriter, r *http.Request) {
		place, to := r.URL.Query().Get("place"), r.URL.Query().Get("to")
		tenant, name := splitID(place)
		var err error
		if l := h.server.places.layout.Load(); !l.names(tenant, name) || placeID(tenant, name) != place {
			err = fmt.Errorf("import place %q: the policy of the front does not name this place; add it to the policies of the front and of all workers", policies.Clip(place, 256))
		} else {
			err = front.Import(r.Context(), place, to, newTimedStream(w, r))
		}
		respond(w, front.Place(place), err)
		log.Info("an import of a place was requested", "place", policies.Clip(place, 256), "by", control.Caller(r), "err", err)
	})
}

// streamWait is the time limit of a command for each part of a place that it sends or
// reads.
const streamWait = time.Minute

// newTimedStream returns the stream of a request with the time limit streamWait for each
// part.
func newTimedStream(w http.ResponseWriter, r *http.Request) *fleet.TimedStream {
	return &fleet.TimedStream{Wait: streamWait, W: w, Body: r.Body}
}

// respond sends the result of a request.
func respond(w http.ResponseWriter, info fleet.PlaceInfo, err error) {
	if err != nil {
		control.Respond(w, http.StatusConflict, err.Error())
		return
	}
	control.Respond(w, http.StatusOK, info)
}

// lateStatus records whether a part of an answer was sent.
type lateStatus struct {
	w     io.Writer
	begun bool
}

// Write sends a part.
func (l *lateStatus) Write(p []byte) (int, error) {
	l.begun = true
	return l.w.Write(p)
}
