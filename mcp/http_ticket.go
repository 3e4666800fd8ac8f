package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strings"

	"belljar.dev/internal/origin"
	"belljar.dev/mcp/socket"
	"belljar.dev/mcp/wire"
)

const (
	ticketPath = "/ticket" // below the path of the WebSocket
	// ticketProtocol begins the subprotocol with which a page presents its ticket. The
	// server chooses the subprotocol of MCP, so its answer does not repeat the ticket.
	ticketProtocol = subprotocol + ".ticket."
)

// issued is the answer to a request for a ticket.
type issued struct {
	Ticket    string `json:"ticket"`
	Protocol  string `json:"protocol"` // subprotocol that the page offers in addition to that of MCP
	ExpiresIn int    `json:"expires_in"`
}

// ticket issues a ticket to a caller. The ticket is for the page that sends the request or,
// if a program sends it, for the page that the program names.
func (w *web) ticket(rw http.ResponseWriter, r *http.Request) {
	if !offered(rw, r, w.server.cfg.Sockets, noSockets, http.MethodPost) {
		return
	}
	page, ok := w.ticketPage(rw, r)
	if !ok {
		return
	}
	bad := w.server.sessions.doorOf(w.server.cfg.callerOf(r.Context()).Tenant).count(1)
	var ticket string
	if bad == nil {
		ticket, bad = w.server.cfg.Tickets.issue(identityIn(r.Context()), page, strings.TrimSuffix(r.URL.Path, ticketPath))
	}
	if bad != nil {
		w.busy(rw, http.StatusTooManyRequests, posted{}, bad)
		return
	}
	text, err := json.Marshal(issued{ticket, ticketProtocol + ticket, int(ticketLife.Seconds())})
	if err != nil {
		http.Error(rw, "the ticket cannot be written", http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	if _, err := rw.Write(text); err != nil {
		w.server.cfg.Log.Debug("a ticket was not sent", "error", err)
	}
}

// ticketPage returns the origin of the page that will use the requested ticket; empty if a
// program will use it. If the request is not valid, the answer has been sent, and ok is
// false.
func (w *web) ticketPage(rw http.ResponseWriter, r *http.Request) (page string, ok bool) {
	body, ok := w.readBody(rw, r)
	if !ok {
		return "", false
	}
	asks, named := pageOf(r), ""
	if body = wire.TrimLine(body); len(body) > 0 {
		if !isJSON(r.Header) {
			http.Error(rw, notJSON, http.StatusUnsupportedMediaType)
			return "", false
		}
		if bad := wire.CheckLine(body, w.server.cfg.Limits.Depth); bad != nil {
			w.refuse(rw, http.StatusBadRequest, nil, wire.Legacy, bad)
			return "", false
		}
		if raw := wire.Member(body, "origin"); raw != nil {
			var err error
			if named, err = origin.ParseOrigin(wire.Text(raw)); err != nil {
				http.Error(rw, "origin: "+err.Error(), http.StatusBadRequest)
				return "", false
			}
		}
	}
	if asks != "" && named != "" && asks != named {
		http.Error(rw, "a page can get tickets only for its own origin", http.StatusForbidden)
		return "", false
	}
	return cmp.Or(asks, named), true
}

// pageOf returns the origin of the page that sent a request; empty if a program sent it.
// The check of origins has already allowed the request.
func pageOf(r *http.Request) string {
	page, err := origin.ParseOrigin(r.Header.Get("Origin"))
	if err != nil {
		return ""
	}
	return page
}

// ticketIn returns the ticket that a page presents in a request for a WebSocket, and false
// for any other request.
func ticketIn(r *http.Request) (ticket string, ok bool) {
	protocols := socket.Protocols(r)
	if !socket.Asked(r) || r.Method != http.MethodGet || path.Base(r.URL.Path) != "mcp" ||
		len(protocols) != 2 || protocols[0] != subprotocol {
		return "", false
	}
	return strings.CutPrefix(protocols[1], ticketProtocol)
}

// loginByTicket does what login does, for a page that presents a ticket in place of a
// token. A page cannot read the HTTP status of a request for a WebSocket. So the server
// refuses a ticket with a WebSocket that it closes immediately.
func (w *web) loginByTicket(rw http.ResponseWriter, r *http.Request, ticket string) (_ *http.Request, ok bool) {
	if r.Header.Get("Authorization") != "" {
		r.Header.Del("Authorization")
		http.Error(rw, "there is a token as well as a ticket; send one of them", http.StatusBadRequest)
		return nil, false
	}
	if misplaced(rw, r) {
		return nil, false
	}
	r.Header.Set("Sec-Websocket-Protocol", subprotocol) // later code does not see the ticket
	ctx := r.Context()
	p, ok := w.server.cfg.Tickets.redeem(ticket, pageOf(r), r.URL.Path)
	if ok && p.caller != nil {
		ctx = context.WithValue(ctx, callerKey{}, *p.caller)
		p.caller.serves(ctx)
	}
	if ok && w.server.cfg.holds(ctx) {
		return r.WithContext(ctx), true
	}
	w.server.cfg.Log.Debug("a ticket for a WebSocket was refused")
	if conn, err := acceptSocket(w.server.cfg, rw, r); err == nil {
		conn.Close(socket.NoLogin, "the ticket was used before, has expired, or is for another page or path; POST to /mcp/ticket for a new one")
	}
	return nil, false
}
