package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox"
)

// A server that runs can be asked about its boxes by the other commands: over
// a unix socket in the state directory, which is its user's alone, in HTTP.
// No box can see the directory.

// Bounds of the conversation.
const (
	controlMost     = 64 << 10        // bytes of one message
	controlPatience = 5 * time.Second // for an answer
	maxServers      = 64              // that are asked
)

// controlDir is where servers have their sockets.
func controlDir(state string) string { return filepath.Join(state, "servers") }

// boxInfo is one box, as the other commands see it.
type boxInfo struct {
	Server    int           `json:"server"` // process id
	ID        string        `json:"id"`
	Tenant    string        `json:"tenant"`
	Profile   string        `json:"profile"`
	Jobs      int           `json:"jobs"` // in the background, that run
	Listening []uint16      `json:"listening"`
	Published []publishInfo `json:"published"`
	Browser   bool          `json:"browser,omitempty"` // a Chrome runs in it
	Memory    int64         `json:"memory,omitempty"`  // bytes, of such a box
}

// publishInfo is a port of a box that the host has.
type publishInfo struct {
	Box  string `json:"box"`
	Port uint16 `json:"port"`
	At   string `json:"at"` // address on the host
}

// control answers the other commands.
type control struct {
	sandbox *sandbox.Supervisor
	server  http.Server
	path    string
	dir     *os.File
	wg      sync.WaitGroup
}

// openControl begins to answer, in the state directory. The caller closes it.
func openControl(ctx context.Context, state string, s *sandbox.Supervisor, policy *policyStatus, kept *ledger, approver *approver, ops *operations, log *slog.Logger) (*control, error) {
	name := controlDir(state)
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("state: %w; name another directory with --state", err)
	}
	dir, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	c := &control{sandbox: s, dir: dir, path: filepath.Join(name, strconv.Itoa(os.Getpid())+".sock")}
	_ = os.Remove(c.path) // of a process that had our number and was killed
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socketPath(dir, filepath.Base(c.path)))
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("state: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /boxes", c.boxes)
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, policy.info()) })
	mux.HandleFunc("GET /audit", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, kept.health()) })
	mux.HandleFunc("POST /publish", c.publish)
	mux.HandleFunc("POST /unpublish", c.unpublish)
	if ops != nil {
		ops.handle(mux)
	}
	if approver != nil {
		approver.handle(mux, approver.place)
	}
	c.server = http.Server{
		Handler: http.MaxBytesHandler(known(mux), controlMost), ConnContext: withCaller, ReadTimeout: controlPatience, WriteTimeout: 2 * controlPatience, IdleTimeout: controlPatience,
		MaxHeaderBytes: controlMost, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	c.wg.Go(func() {
		if err := c.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("control socket", "err", err)
		}
	})
	return c, nil
}

// socketPath names a socket in a directory that is open: its own path may be
// longer than the 108 bytes an address has room for (unix(7)).
func socketPath(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// close stops answering. Requests that run have a moment for their answers: one of
// them may have ended this server's only session, and so the server. Then they are
// ended.
func (c *control) close() {
	patience, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	if c.server.Shutdown(patience) != nil {
		c.server.Close()
	}
	c.wg.Wait()
	_ = os.Remove(c.path)
	c.dir.Close()
}

func (c *control) boxes(w http.ResponseWriter, _ *http.Request) {
	infos := []boxInfo{}
	for _, b := range c.sandbox.Boxes() {
		info := boxInfo{
			Server: os.Getpid(), ID: b.ID(), Tenant: b.Grant().Tenant(), Profile: b.Grant().Profile(),
			Listening: []uint16{}, Published: published(b),
		}
		for _, j := range b.Jobs() {
			if j.Status() == sandbox.Running {
				info.Jobs++
			}
		}
		if ports, err := b.Listening(); err == nil { // a box that ends meanwhile has none
			info.Listening = append(info.Listening, ports...)
		}
		if info.Browser = b.Grant().OfBrowser(); info.Browser {
			info.Memory = b.MemoryUsed()
		}
		infos = append(infos, info)
	}
	respond(w, http.StatusOK, infos)
}

func published(b *sandbox.Box) []publishInfo {
	infos := []publishInfo{}
	for _, p := range b.Published() {
		infos = append(infos, publishInfo{Box: b.ID(), Port: p.Port, At: p.At.String()})
	}
	return infos
}

// publish makes a port of a box one of the host.
func (c *control) publish(w http.ResponseWriter, r *http.Request) {
	want, box, err := c.wanted(r)
	if err != nil {
		respond(w, http.StatusBadRequest, err.Error())
		return
	}
	at, err := hostPort(want.At)
	if err != nil {
		respond(w, http.StatusBadRequest, err.Error())
		return
	}
	p, err := box.Publish(r.Context(), want.Port, at)
	if err != nil {
		respond(w, http.StatusConflict, err.Error())
		return
	}
	respond(w, http.StatusOK, publishInfo{Box: box.ID(), Port: p.Port, At: p.At.String()})
}

// unpublish takes it back.
func (c *control) unpublish(w http.ResponseWriter, r *http.Request) {
	want, box, err := c.wanted(r)
	if err != nil {
		respond(w, http.StatusBadRequest, err.Error())
		return
	}
	for _, p := range box.Published() {
		if p.Port == want.Port && (want.At == "" || want.At == p.At.String()) {
			p.Close()
			respond(w, http.StatusOK, publishInfo{Box: box.ID(), Port: p.Port, At: p.At.String()})
			return
		}
	}
	respond(w, http.StatusConflict, fmt.Sprintf("port %d of box %s is not published", want.Port, box.ID()))
}

// wanted is what a request asks for, and the box it is about.
func (c *control) wanted(r *http.Request) (want publishInfo, box *sandbox.Box, err error) {
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		return want, nil, fmt.Errorf("read request: %w", err)
	}
	for _, b := range c.sandbox.Boxes() {
		if b.ID() == want.Box {
			return want, b, nil
		}
	}
	return want, nil, fmt.Errorf("no box %q; `belljar ps` lists them", want.Box)
}

func respond(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what) // a client that has gone hears nothing
}

// controlClient asks one server.
type controlClient struct {
	pid  int
	http http.Client
}

// servers are the servers of this user, at most maxServers. One that was killed may be
// among them: see gone.
func servers(state string) ([]*controlClient, error) {
	dir, err := os.Open(controlDir(state))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxServers)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("state: %w", err)
	}
	var found []*controlClient
	for _, e := range entries {
		pid, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".sock"))
		if err != nil || pid <= 0 {
			continue
		}
		c := &controlClient{pid: pid, http: http.Client{Timeout: 2 * controlPatience}}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			dir, err := os.Open(controlDir(state))
			if err != nil {
				return nil, err
			}
			defer dir.Close()
			return (&net.Dialer{}).DialContext(ctx, "unix", socketPath(dir, e.Name()))
		}
		c.http.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b *controlClient) int { return cmp.Compare(a.pid, b.pid) })
	return found, nil
}

// ask sends a request and reads the answer into out.
func (c *controlClient) ask(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://belljar"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask server %d: %w", c.pid, err)
	}
	defer resp.Body.Close()
	text := io.LimitReader(resp.Body, 16*controlMost)
	if resp.StatusCode != http.StatusOK {
		var why string
		if json.NewDecoder(text).Decode(&why) != nil || why == "" {
			why = resp.Status
		}
		return errors.New(why)
	}
	if err := json.NewDecoder(text).Decode(out); err != nil {
		return fmt.Errorf("ask server %d: %w", c.pid, err)
	}
	return nil
}

// gone reports whether an error says that no server has the socket any more.
func gone(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// allBoxes are the boxes of all servers of this user.
func allBoxes(ctx context.Context, state string) ([]boxInfo, []*controlClient, error) {
	clients, err := servers(state)
	if err != nil {
		return nil, nil, err
	}
	boxes := []boxInfo{}
	for _, c := range clients {
		var of []boxInfo
		err := c.ask(ctx, http.MethodGet, "/boxes", nil, &of)
		if gone(err) {
			_ = os.Remove(filepath.Join(controlDir(state), strconv.Itoa(c.pid)+".sock"))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		boxes = append(boxes, of...)
	}
	return boxes, clients, nil
}
