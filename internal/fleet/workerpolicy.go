package fleet

import (
	"encoding/json"
	"errors"
	"net/http"
)

// takePolicy takes into use the policy that a front gives, and reports whether this
// succeeded. A request of a client is refused here, because it names a place.
func (w *Worker) takePolicy(rw http.ResponseWriter, r *http.Request) (taken bool) {
	_, placed := r.Header[PlaceHeader]
	_, called := r.Header[CallerHeader]
	if placed || called || r.Method != http.MethodPost {
		http.NotFound(rw, r)
		return false
	}
	if w.cfg.TakePolicy == nil {
		http.Error(rw, "this worker takes no policy of the fleet: it was started without --fleet-policy", http.StatusNotFound)
		return false
	}
	var g Policy
	if json.NewDecoder(http.MaxBytesReader(rw, r.Body, MaxPolicyJSON)).Decode(&g) != nil || g.Number == 0 || g.Number > MaxNumber || len(g.Text) > MaxPolicy {
		http.Error(rw, "this is not a policy of a fleet", http.StatusBadRequest)
		return false
	}
	err := w.cfg.TakePolicy(r.Context(), g)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		w.cfg.Log.Error("a policy of the fleet is refused; the previous one stays in force", "number", g.Number, "why", refusal.Why)
		http.Error(rw, refusal.Why, http.StatusConflict)
	case err != nil:
		w.cfg.Log.Error("a policy of the fleet cannot be put into force", "number", g.Number, "err", err)
		http.Error(rw, "its log says why", http.StatusInternalServerError)
	default:
		rw.WriteHeader(http.StatusNoContent)
	}
	return err == nil
}
