package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/pki"
	"belljar.dev/internal/front"
	"belljar.dev/internal/server"
)

// The writer moves one place between the two workers of a fleet. The front and both workers
// run in this process, so they are killed, and lose power, at the same time.

const fleetPolicy = `version: 1
defaults: {decision: deny, profile: offline}
profiles: {offline: {fs: {system: true, workspace: rw}}}
tenants: {a: {token: "${env:` + tokenEnv + `}"}}
`

const (
	tokenEnv = "BELLJAR_TEST_FLEET_TOKEN"
	token    = "one"
)

// nodes are a front and its workers.
type nodes struct {
	dir   string
	url   string            // URL for clients
	front *control.Client   // client of the front's control socket
	other map[string]string // for each worker, the other worker, to which its place moves

	cancel  context.CancelFunc
	running sync.WaitGroup
	failed  chan error // errors of servers that ended on their own
}

// openNodes starts a fleet whose directories are in dir. It always makes new certificates.
func openNodes(ctx context.Context, dir string) (_ *nodes, err error) {
	n := &nodes{dir: dir, other: map[string]string{"w1": "w2", "w2": "w1"}, failed: make(chan error, 3)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ctx, n.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	keys, err := os.MkdirTemp(dir, "keys-")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(token))
	policy := filepath.Join(keys, "policy.yaml")
	if err := errors.Join(os.Setenv(tokenEnv, hex.EncodeToString(sum[:])), os.WriteFile(policy, []byte(fleetPolicy), 0o600), pki.Init(keys, time.Now())); err != nil {
		return nil, err
	}
	const host = "127.0.0.1"
	issue := func(node pki.Node) (c fleet.Credentials, err error) {
		node.Life = time.Hour
		c.CA = filepath.Join(keys, pki.CAFile)
		c.Cert, c.Key, err = pki.Issue(keys, node, time.Now())
		return c, err
	}
	cfg := server.Config{Command: "front", Policy: policy, State: filepath.Join(dir, "front"), Log: slog.New(slog.DiscardHandler)}
	certs, err := issue(pki.Node{Name: "front", Hosts: []string{host}})
	if err != nil {
		return nil, err
	}
	cfg.Service = &server.Service{HTTP: &front.Config{Addr: host + ":0", Forwards: true, Out: io.Discard}, Routes: &server.Routes{Addr: host + ":0", Credentials: certs}}
	link := make(chan string, 1)
	if err := n.start(ctx, cfg, func(ctx context.Context, s *server.Server) error {
		return server.ServeRoutes(ctx, s, func(url, at string) {
			n.url = url
			link <- at
		})
	}); err != nil {
		return nil, err
	}
	var at string
	select {
	case at = <-link:
	case err := <-n.failed:
		return nil, err
	}
	for name := range n.other {
		certs, err := issue(pki.Node{Name: name, DNS: fleet.WorkerDNS(name)})
		if err != nil {
			return nil, err
		}
		cfg := server.Config{Command: "work", Policy: policy, Log: cfg.Log, Tools: &server.Tools{}}
		cfg.Service = &server.Service{Link: &server.Link{Name: name, Fronts: []string{"https://" + at}, Credentials: certs, Places: filepath.Join(dir, name)}}
		if err := n.start(ctx, cfg, func(ctx context.Context, s *server.Server) error { return server.Work(ctx, s, func() {}) }); err != nil {
			return nil, err
		}
	}
	all, err := control.Clients(filepath.Join(dir, "front"))
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("the front has %d control sockets: %w", len(all), err)
	}
	n.front = all[0]
	return n, nil
}

// start opens a server, and serves until the fleet is closed.
func (n *nodes) start(ctx context.Context, cfg server.Config, serve func(context.Context, *server.Server) error) error {
	s, err := server.Open(ctx, cfg)
	if err != nil {
		return fmt.Errorf("open the %s: %w", cfg.Command, err)
	}
	n.running.Go(func() {
		defer s.Close()
		if err := serve(ctx, s); err != nil {
			n.failed <- fmt.Errorf("%s: %w", cfg.Command, err)
		}
	})
	return nil
}

// close ends all servers, and waits for them.
func (n *nodes) close() {
	n.cancel()
	n.running.Wait()
}

// workspace returns the directory of the place at a worker.
func (n *nodes) workspace(worker string) string {
	return filepath.Join(n.dir, worker, "places", "a", "@", "workspace")
}

// rest waits until the place is at work at one worker, the other worker has no copy of it,
// and it could move.
func (n *nodes) rest(ctx context.Context) (now fleet.PlaceInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		var fronts []fleet.Info
		err = errors.Join(
			n.front.Ask(ctx, http.MethodGet, "/fleet/place?place="+url.QueryEscape("a"), nil, &now),
			n.front.Ask(ctx, http.MethodGet, "/fleet", nil, &fronts),
		)
		_, elsewhere := os.Lstat(filepath.Dir(n.workspace(n.other[now.Worker])))
		if err == nil && now.State == "at work" && errors.Is(elsewhere, os.ErrNotExist) && len(fronts) == 1 && len(fronts[0].Workers) == len(n.other) {
			return now, nil
		}
		select {
		case err := <-n.failed:
			return now, err
		case <-ctx.Done():
			return now, errors.Join(fmt.Errorf("the place does not come to rest: %+v, %+v", now, fronts), err)
		case <-again.C:
		}
	}
}

// make sends a client's request for the place, so that a worker makes it.
func (n *nodes) make(ctx context.Context) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			return err
		}
		for key, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"} {
			r.Header.Set(key, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		answer.Body.Close()
		switch {
		case err != nil:
			return err
		case answer.StatusCode == http.StatusOK:
			return nil
		case answer.StatusCode != http.StatusServiceUnavailable: // with StatusServiceUnavailable, no worker is linked yet
			return fmt.Errorf("ask for the place: %s: %.500s", answer.Status, text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// writeMoves writes a file, as an agent that calls sync would. Then it moves the place, and
// writes the next file at the other worker.
func writeMoves(ctx context.Context, at place, tag string, say func(string)) error {
	n, err := openNodes(ctx, filepath.Join(at.dir, "fleet"))
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.make(ctx); err != nil {
		return err
	}
	for i := 0; ; i++ {
		now, err := n.rest(ctx)
		if err != nil {
			return err
		}
		name := fmt.Sprint(tag, "-", i)
		if err := diskfile.Replace(filepath.Join(n.workspace(now.Worker), name), []byte(name), 0o600); err != nil {
			return err
		}
		say("file " + name)
		if err := n.front.Ask(ctx, http.MethodPost, "/fleet/move", map[string]string{"place": "a", "to": n.other[now.Worker]}, &now); err != nil {
			return err
		}
		before := now.Worker
		if now, err = n.rest(ctx); err != nil {
			return err
		}
		if now.Worker == before {
			return fmt.Errorf("the place stays: %+v", now)
		}
		say(fmt.Sprint("move ", now.Move, " to ", now.Worker))
	}
}

func missingMoves(ctx context.Context, at place, said []string) (lost []string, err error) {
	n, err := openNodes(ctx, filepath.Join(at.dir, "fleet"))
	if err != nil {
		return nil, err
	}
	defer n.close()
	now, err := n.rest(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range said {
		var number uint64
		var worker string
		if name, is := strings.CutPrefix(step, "file "); is {
			text, err := os.ReadFile(filepath.Join(n.workspace(now.Worker), name))
			if err != nil || string(text) != name {
				lost = append(lost, step)
			}
		} else if _, err := fmt.Sscanf(step, "move %d to %s", &number, &worker); err != nil || now.Move < number || now.Move == number && now.Worker != worker {
			lost = append(lost, step)
		}
	}
	return lost, nil
}
