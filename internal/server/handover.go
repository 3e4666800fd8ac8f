package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"belljar.dev/internal/front"
	"belljar.dev/internal/hostexec"
)

// HandOver starts the program at path with the arguments and variables of this process, and
// hands the sockets of a server over HTTP to it. If it returns nil, the successor accepts all
// connections from now on, and the caller must end the context of ServeHTTP, which lets the
// open connections end. HandOver then returns the process ID of the successor. After an error
// the server continues as before.
//
//  1. The successor starts with the sockets. Both processes have them now, and this process
//     still accepts connections.
//  2. The successor opens everything, makes what boxes need, and reports that it is ready.
//  3. This process accepts no more connections on any socket. Clients with open connections
//     get their answers, with the request to connect again. Their sessions are restored in the
//     successor by their first request there, like those after a restart, and get new boxes.
//  4. Calls that still run have the time that a server gives them when it stops. When this
//     process ends, the successor reads the end of file, and then waits for it no longer.
func HandOver(ctx context.Context, s *Server, path string, args, env []string) (successor int, err error) {
	handovers := 0
	if in := s.cfg.Service.Inherited; in != nil {
		handovers = in.Handovers
	}
	s.Log.Info("the server hands over to a successor", "to", path)
	defer func() {
		if err != nil && s.monitor != nil {
			s.monitor.meters.handovers.Add(1, "failed")
		}
	}()
	if os.Getpid() == 1 {
		return 0, errors.New("this is the first process of a container, which ends with it; start another container instead")
	}
	var admin *front.Admin
	if s.monitor != nil {
		admin = s.monitor.listener
	}
	var people *front.Front
	if s.console != nil {
		people = s.console.Front()
	}
	var answers net.Listener
	if s.ways != nil && s.ways.hook != nil {
		answers = s.ways.hook.port
	}
	h, err := front.NewHandover(s.front, admin, people, answers, handovers+1)
	if err != nil {
		return 0, err
	}
	next, err := hostexec.Successor(path, args, append(env, h.Env...), h.Files, s.host.boxes())
	h.Sent()
	if err != nil {
		h.Close()
		return 0, fmt.Errorf("start the successor: %w", err)
	}
	if err := h.Await(ctx); err != nil {
		h.Close()
		_ = next.Kill()
		_, _ = next.Wait()
		return 0, fmt.Errorf("the successor %d: %w", next.Pid, err)
	}
	s.opened.Do(h.Close) // the successor waits until h is closed
	s.front.Succeed()
	if admin != nil {
		admin.Succeed()
	}
	if people != nil {
		people.Succeed()
	}
	if answers != nil {
		s.ways.hook.succeed(ctx)
	}
	s.Log.Info("the successor accepts all new connections; this server answers its open requests, and ends", "successor", next.Pid)
	successor = next.Pid
	_ = next.Release()
	return successor, nil
}
