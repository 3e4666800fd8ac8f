package control

import (
	"errors"
	"net/http"
	"slices"

	"belljar.dev/internal/people"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// StatusOf returns the status of the answer to a request that had an error: of what does not
// exist, of an answer that a question does not take, or of a fault of the server.
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
