package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/people/approval"
)

// caller is the process at the other end of a control socket. The kernel identifies it
// (unix(7), SO_PEERCRED).
type caller struct {
	uid uint32
	pid int32
	err error // why the process is not known, or may not ask
}

// callerKey is where the context of a request holds its caller.
type callerKey struct{}

// withCaller puts the process that connected into the context.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, callerOf(c))
}

func callerOf(c net.Conn) caller {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return caller{err: errors.New("the connection is not a Unix socket")}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return caller{err: err}
	}
	var who caller
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			who.err = err
			return
		}
		who = caller{uid: cred.Uid, pid: cred.Pid}
	})
	if who.err = errors.Join(who.err, err); who.err == nil {
		who.err = who.check()
	}
	return who
}

// check says why a process may not ask: it belongs to another user, or it is in a box.
// No box can see the socket. But a box of an ordinary user has that user's uid, so if one
// were shown the socket by mistake, it would pass for its owner. Every box has a user
// namespace of its own, which gives it away.
func (c caller) check() error {
	if int(c.uid) != os.Geteuid() && c.uid != 0 {
		return fmt.Errorf("uid %d is not the user of this server", c.uid)
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", c.pid))
	if err != nil {
		return fmt.Errorf("process %d cannot be looked at: %w", c.pid, err)
	}
	if own != theirs {
		return fmt.Errorf("process %d is in a box, or in another container than this server", c.pid)
	}
	return nil
}

// String returns the caller's name for logs and agents.
func (c caller) String() string {
	text := "uid " + strconv.FormatUint(uint64(c.uid), 10)
	if u, err := user.LookupId(strconv.FormatUint(uint64(c.uid), 10)); err == nil {
		text = u.Username + " (" + text + ")"
	}
	return text
}

// known passes on only the requests of callers that may ask.
func known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := r.Context().Value(callerKey{}).(caller)
		if !ok {
			who.err = errors.New("the caller is not known")
		}
		if who.err != nil {
			respond(w, http.StatusForbidden, "refused: "+who.err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// approvalsInfo has the approvals that a server sees, and the server's place.
type approvalsInfo struct {
	Place string              `json:"place"`
	All   []approval.Approval `json:"approvals"`
}

// answerInfo is a person's answer to a question.
type answerInfo struct {
	Yes   bool   `json:"yes"`
	Scope string `json:"scope,omitempty"` // as scopeOf reads it
	Note  string `json:"note,omitempty"`
}

// maxShownLines is how many lines a list has of each approval.
const maxShownLines = 3

// approvals adds what `belljar approve` asks for.
func (a *approver) handle(mux *http.ServeMux, place string) {
	handleQuestions(mux, a.questions)
	mux.HandleFunc("GET /approvals", func(w http.ResponseWriter, r *http.Request) {
		list, err := a.desk.List(r.Context(), r.URL.Query().Get("all") != "")
		if err != nil {
			respond(w, http.StatusInternalServerError, err.Error())
			return
		}
		for i := range list {
			s := &list[i].Shown
			*s = approval.Shown{Commands: s.Commands[:min(len(s.Commands), maxShownLines)], Args: s.Args[:min(len(s.Args), maxShownLines)]}
		}
		respond(w, http.StatusOK, approvalsInfo{place, list})
	})
	mux.HandleFunc("GET /approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		got, err := a.desk.Get(r.Context(), r.PathValue("id"))
		answered(w, got, err)
	})
	mux.HandleFunc("POST /approvals/{id}/answer", func(w http.ResponseWriter, r *http.Request) {
		var said answerInfo
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
			return
		}
		scope, most, err := scopeOf(said.Scope)
		if err != nil {
			respond(w, http.StatusBadRequest, err.Error())
			return
		}
		got, err := a.desk.Answer(r.Context(), r.PathValue("id"), approval.Reply{
			Yes: said.Yes, Scope: scope, For: most, By: answerer(r), Via: wayCommand, Note: said.Note,
		})
		answered(w, got, err)
	})
	mux.HandleFunc("POST /approvals/{id}/revoke", func(w http.ResponseWriter, r *http.Request) {
		got, err := a.desk.Revoke(r.Context(), r.PathValue("id"), answerer(r), wayCommand)
		answered(w, got, err)
	})
}

func answerer(r *http.Request) string {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return who.String()
}

// answered sends an approval, or the error of the request for it.
func answered(w http.ResponseWriter, a approval.Approval, err error) {
	switch {
	case err == nil:
		respond(w, http.StatusOK, a)
	case errors.Is(err, approval.ErrUnknown):
		respond(w, http.StatusNotFound, err.Error())
	case errors.Is(err, approval.ErrAnswered), errors.Is(err, approval.ErrOver), errors.Is(err, approval.ErrOpen), errors.Is(err, approval.ErrPolicy), errors.Is(err, approval.ErrScope):
		respond(w, http.StatusConflict, err.Error())
	default:
		respond(w, http.StatusInternalServerError, err.Error())
	}
}
