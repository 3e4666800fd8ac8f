package control

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Client sends requests to one server.
type Client struct {
	PID  int // process id of the server
	dial func(ctx context.Context, _, _ string) (net.Conn, error)
	http http.Client
}

// Patient returns a client that waits at most this long for each answer.
func (c *Client) Patient(wait time.Duration) *Client {
	longer := *c
	longer.http.Timeout = wait
	return &longer
}

// Clients returns clients for the servers of this user, at most maxServers. They may
// include a server that was killed, until Each finds out: see gone.
func Clients(state string) ([]*Client, error) {
	dir, err := os.Open(Dir(state))
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
	var found []*Client
	for _, e := range entries {
		pid, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".sock"))
		if err != nil || pid <= 0 {
			continue
		}
		c := &Client{PID: pid, http: http.Client{Timeout: 2 * patience}}
		c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			dir, err := os.Open(Dir(state))
			if err != nil {
				return nil, err
			}
			defer dir.Close()
			return (&net.Dialer{}).DialContext(ctx, "unix", socketPath(dir, e.Name()))
		}
		c.http.Transport = &http.Transport{DialContext: c.dial, DisableKeepAlives: true}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b *Client) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// Ask sends a request, and decodes the answer into out.
func (c *Client) Ask(ctx context.Context, method, path string, in, out any) error {
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
		return fmt.Errorf("ask server %d: %w", c.PID, err)
	}
	defer resp.Body.Close()
	text := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	if resp.StatusCode != http.StatusOK {
		var why string
		if json.NewDecoder(text).Decode(&why) != nil || why == "" {
			why = resp.Status
		}
		return errors.New(why)
	}
	switch err := json.NewDecoder(text).Decode(out); {
	case err != nil && text.N == 0:
		return fmt.Errorf("ask server %d: the answer has more than %d bytes, which is as much as is read", c.PID, maxAnswer)
	case err != nil:
		return fmt.Errorf("ask server %d: %w", c.PID, err)
	}
	return nil
}

// Stream sends in as the body of a request to a path below StreamPath, and copies the
// answer to out. It sets no time limit.
func (c *Client) Stream(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://belljar"+path, in)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: c.http.Transport}).Do(req)
	if err != nil {
		return fmt.Errorf("ask server %d: %w", c.PID, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var why string
		if json.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&why) != nil || why == "" {
			why = resp.Status
		}
		return errors.New(why)
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		return fmt.Errorf("ask server %d: the answer ended early: %w", c.PID, err)
	}
	return nil
}

// gone reports whether an error means that no server listens on the socket any more.
func gone(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// sweepAll removes the sockets of servers that have ended, except the socket with the pid
// of this process.
func sweepAll(ctx context.Context, state string) {
	sweepLeft(ctx, state)
	for {
		clients, err := Clients(state)
		if err != nil {
			return // a command that uses servers reports this error
		}
		swept := false
		for _, c := range clients {
			if c.PID == os.Getpid() {
				continue
			}
			conn, err := c.dial(ctx, "", "")
			if err == nil {
				conn.Close()
			}
			swept = gone(err) && sweep(ctx, state, c.PID) || swept
		}
		if !swept || len(clients) < maxServers {
			return
		}
	}
}

// sweepLeft removes the sockets that sweep and Listener.listen left under other names because
// their process was killed. If a server still listens on one, that socket gets its final name
// back.
func sweepLeft(ctx context.Context, state string) {
	dir, err := os.Open(Dir(state))
	if err != nil {
		return // the caller meets the same error
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxLeft)
	if err != nil {
		return
	}
	for _, e := range entries {
		number, rest, ok := strings.Cut(e.Name(), ".sock.")
		pid, err := strconv.Atoi(number)
		if !ok || rest == "" || err != nil || pid <= 0 {
			continue
		}
		// A server that starts is about to listen on such a socket.
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < leftFor {
			continue
		}
		settle(ctx, dir, e.Name(), pid)
	}
}

// sweep removes the socket of a server that has ended, and reports whether it removed the
// socket. In the meantime a new server may have the same pid, and so the same socket name.
// Therefore sweep first renames the socket to a name that no server uses, and then tests it
// once more.
func sweep(ctx context.Context, state string, pid int) bool {
	dir, err := os.Open(Dir(state))
	if err != nil {
		return false
	}
	defer dir.Close()
	name := socketName(pid)
	aside := name + "." + rand.Text()
	if unix.Renameat(int(dir.Fd()), name, int(dir.Fd()), aside) != nil {
		return false
	}
	return settle(ctx, dir, aside, pid)
}

// settle removes a socket that was renamed if no server listens on it, and reports whether it
// did. Otherwise the socket gets the final name of a server with the pid.
func settle(ctx context.Context, dir *os.File, aside string, pid int) bool {
	fd := int(dir.Fd())
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socketPath(dir, aside))
	if gone(err) {
		return unix.Unlinkat(fd, aside, 0) == nil
	}
	if err == nil {
		conn.Close()
	}
	if unix.Renameat2(fd, aside, fd, socketName(pid), unix.RENAME_NOREPLACE) != nil {
		// A server with the same pid has taken the name, so the one that answered has ended
		// since.
		_ = unix.Unlinkat(fd, aside, 0)
	}
	return false
}

// Boxes returns the boxes of all servers of this user, and the clients of these servers.
func Boxes(ctx context.Context, state string) ([]Box, []*Client, error) {
	found, err := Each[[]Box](ctx, state, "/boxes")
	boxes, clients := []Box{}, []*Client{}
	for _, at := range found {
		boxes, clients = append(boxes, at.Said...), append(clients, at.Client)
	}
	return boxes, clients, err
}

// From is a server of this user and its answer.
type From[T any] struct {
	Client *Client
	Said   T
}

// Each requests a path from every server of a state directory. It skips a server that has
// ended, and removes its socket. Another error of one server is returned, without the answers
// of the others.
func Each[T any](ctx context.Context, state, path string) ([]From[T], error) {
	for {
		clients, err := Clients(state)
		if err != nil {
			return nil, err
		}
		var found []From[T]
		swept := false
		for _, client := range clients {
			one := From[T]{Client: client}
			switch err := client.Ask(ctx, http.MethodGet, path, nil, &one.Said); {
			case gone(err):
				swept = sweep(ctx, state, client.PID) || swept
			case err != nil:
				return nil, err
			default:
				found = append(found, one)
			}
		}
		if !swept || len(clients) < maxServers {
			return found, nil
		}
		// The ended servers counted against maxServers, so there may be others.
	}
}
