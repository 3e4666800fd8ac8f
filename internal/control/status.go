package control

import (
	"errors"
	"net/http"
	"slices"

	"belljar.dev/internal/people"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// StatusOf returns the HTTP status for an error: for something that does not exist, for an
// answer that a question does not accept, or for a fault of the server.
func StatusOf(err error) int {
	refused := []error{
		approval.ErrAnswered, approval.ErrOver, approval.ErrOpen, approval.ErrPolicy, approval.ErrScope, question.ErrOver, question.ErrAnswer,
	}
	switch {
	case errors.Is(err, people.ErrUnknown):
		return http.StatusNotFound
	case slices.ContainsFunc(refused, func(e error) bool { return errors.Is(err, e) }):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
