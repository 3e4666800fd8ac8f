package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
)

// maxShownLines is how many lines a list has of each approval.
const maxShownLines = 3

// approvals adds what `belljar approve` asks for.
func (a *approver) handle(mux *http.ServeMux, place string) {
	handleQuestions(mux, a.questions)
	mux.HandleFunc("GET /approvals", func(w http.ResponseWriter, r *http.Request) {
		list, err := a.desk.List(r.Context(), r.URL.Query().Get("all") != "")
		if err != nil {
			control.Respond(w, http.StatusInternalServerError, err.Error())
			return
		}
		for i := range list {
			s := &list[i].Shown
			*s = approval.Shown{Commands: s.Commands[:min(len(s.Commands), maxShownLines)], Args: s.Args[:min(len(s.Args), maxShownLines)]}
		}
		control.Respond(w, http.StatusOK, control.Approvals{Place: place, All: list})
	})
	mux.HandleFunc("GET /approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		got, err := a.desk.Get(r.Context(), r.PathValue("id"))
		answered(w, got, err)
	})
	mux.HandleFunc("POST /approvals/{id}/answer", func(w http.ResponseWriter, r *http.Request) {
		var said control.Answer
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
			return
		}
		scope, most, err := control.ParseScope(said.Scope)
		if err != nil {
			control.Respond(w, http.StatusBadRequest, err.Error())
			return
		}
		got, err := a.desk.Answer(r.Context(), r.PathValue("id"), approval.Reply{
			Yes: said.Yes, Scope: scope, For: most, By: control.Caller(r), Via: wayCommand, Note: said.Note,
		})
		answered(w, got, err)
	})
	mux.HandleFunc("POST /approvals/{id}/revoke", func(w http.ResponseWriter, r *http.Request) {
		got, err := a.desk.Revoke(r.Context(), r.PathValue("id"), control.Caller(r), wayCommand)
		answered(w, got, err)
	})
}

// answered sends an approval, or the error of the request for it.
func answered(w http.ResponseWriter, a approval.Approval, err error) {
	switch {
	case err == nil:
		control.Respond(w, http.StatusOK, a)
	case errors.Is(err, approval.ErrUnknown):
		control.Respond(w, http.StatusNotFound, err.Error())
	case errors.Is(err, approval.ErrAnswered), errors.Is(err, approval.ErrOver), errors.Is(err, approval.ErrOpen), errors.Is(err, approval.ErrPolicy), errors.Is(err, approval.ErrScope):
		control.Respond(w, http.StatusConflict, err.Error())
	default:
		control.Respond(w, http.StatusInternalServerError, err.Error())
	}
}
