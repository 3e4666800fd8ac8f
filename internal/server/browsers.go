package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"belljar.dev/browser/act"
	"belljar.dev/internal/control"
	"belljar.dev/policies/audit"
)

// agentBrowsers contains the browsers that agents use. People watch and stop them through
// the control socket and the console.
type agentBrowsers struct {
	seats *act.Seats
	audit *ledger
	log   *slog.Logger
}

// handle adds the routes for `belljar browser`.
func (b *agentBrowsers) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /browsers", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, b.all()) })
	mux.HandleFunc("GET /browsers/{id}/picture", func(w http.ResponseWriter, r *http.Request) {
		answerOf(w, func() (control.Picture, error) { return b.picture(r.Context(), r.PathValue("id")) })
	})
	mux.HandleFunc("POST /browsers/{id}/hold", func(w http.ResponseWriter, r *http.Request) {
		answerOf(w, func() (control.Browser, error) { return b.hold(r.Context(), r.PathValue("id"), control.Caller(r)) })
	})
	mux.HandleFunc("POST /browsers/{id}/release", func(w http.ResponseWriter, r *http.Request) {
		answerOf(w, func() (control.Browser, error) { return b.release(r.PathValue("id"), control.Caller(r)) })
	})
}

// answerOf responds with the result of f.
func answerOf[T any](w http.ResponseWriter, f func() (T, error)) {
	v, err := f()
	switch {
	case unknownBrowser(err):
		control.Respond(w, http.StatusNotFound, err.Error())
	case err != nil:
		control.Respond(w, http.StatusConflict, err.Error())
	default:
		control.Respond(w, http.StatusOK, v)
	}
}

// unknownBrowser reports whether an error means that no browser with the ID runs.
func unknownBrowser(err error) bool {
	r, ok := errors.AsType[*act.Refusal](err)
	return ok && (r.Reason == act.ReasonUnknown || r.Reason == act.ReasonClosed)
}

// all returns the browsers that have had a Chrome.
func (b *agentBrowsers) all() []control.Browser {
	all := []control.Browser{}
	for _, s := range b.seats.List() {
		if s.ID != "" {
			all = append(all, seatAs(s))
		}
	}
	return all
}

func seatAs(s act.Info) control.Browser {
	return control.Browser{
		Server: os.Getpid(), ID: s.ID, Tenant: s.Tenant, Profile: s.Profile, State: s.State, Tabs: s.Tabs, Memory: s.Memory, HeldBy: s.HeldBy, HeldSince: s.HeldSince,
	}
}

// picture returns a picture of what a browser shows now. The pixels are encoded again, so
// nothing else that the browser has sent is in it.
func (b *agentBrowsers) picture(ctx context.Context, id string) (p control.Picture, err error) {
	shown, err := b.seats.Show(ctx, id) // the number of its pixels is bounded
	if err != nil {
		return p, err
	}
	if p.JPEG, p.Width, p.Height, err = redrawn(shown.Picture, shownQuality); err != nil {
		return p, fmt.Errorf("browser %s: %w", id, err)
	}
	return p, nil
}

// hold stops the acts of a browser's agent.
func (b *agentBrowsers) hold(ctx context.Context, id, by string) (control.Browser, error) {
	s, err := b.seats.Hold(ctx, id, by)
	if s.ID != "" {
		b.log.Info("a person stopped the acts in a browser", "browser", s.ID, "tenant", s.Tenant, "by", by)
		b.audit.append(audit.Session{Event: "browser-held", Tenant: s.Tenant, Session: control.ShortBox(s.ID), By: by})
	}
	return seatAs(s), err
}

// release lets the acts of a browser's agent continue.
func (b *agentBrowsers) release(id, by string) (control.Browser, error) {
	s, err := b.seats.Release(id)
	if err == nil {
		b.log.Info("a person resumed the acts in a browser", "browser", s.ID, "tenant", s.Tenant, "by", by)
		b.audit.append(audit.Session{Event: "browser-released", Tenant: s.Tenant, Session: control.ShortBox(s.ID), By: by})
	}
	return seatAs(s), err
}
