package webcheck

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Messages of the protocol.
const (
	clientInfo  = `{"name":"belljar-doctor","version":"1"}`
	hello       = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":` + clientInfo + `}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ping        = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	modernList  = `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + clientInfo + `,"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// needsToken returns the finding of a check that cannot be made without a token.
func needsToken(check string) Finding {
	return unknown(check, "give the token of a client with --token-file", "it needs a login")
}

// needsSession returns the finding of a check that cannot be made without a session.
func (t *target) needsSession(check string) Finding {
	if t.login && t.Token == "" {
		return needsToken(check)
	}
	return unknown(check, "", "it needs a session, and none could be begun")
}

// in returns the headers of a request in the session.
func (t *target) in() map[string]string {
	return map[string]string{"Mcp-Session-Id": t.session, "Mcp-Protocol-Version": "2025-11-25"}
}

// legacy begins a session in a revision with a handshake.
func (t *target) legacy(ctx context.Context) Finding {
	const name = "2025-11-25"
	if t.login && t.Token == "" {
		return needsToken(name)
	}
	got, err := t.ask(ctx, request{body: hello, login: true})
	switch {
	case err == nil && got.StatusCode == http.StatusNotFound:
		return found(name, "give the URL at which clients connect, which ends in /mcp, and let the proxy pass that path on as it is", "initialize: %s", got.Status)
	case err != nil || got.StatusCode != http.StatusOK || !strings.Contains(got.text, `"result"`):
		return found(name, "use a valid token; the log of the server says why this one was refused", "initialize: %s", status(got, err))
	case got.Header.Get("Mcp-Session-Id") == "":
		return found(name, "let the proxy pass the header Mcp-Session-Id on", "initialize began no session")
	}
	t.session = got.Header.Get("Mcp-Session-Id")
	if got, err := t.ask(ctx, request{body: initialized, login: true, header: t.in()}); err != nil || got.StatusCode != http.StatusAccepted {
		return found(name, "let the proxy pass all headers of requests on", "the session is not found again: %s", status(got, err))
	}
	return found(name, "", "a session begins and is found again")
}

// modern sends a request in the revision without a handshake.
func (t *target) modern(ctx context.Context) Finding {
	const name = "2026-07-28"
	if t.login && t.Token == "" {
		return needsToken(name)
	}
	got, err := t.ask(ctx, request{body: modernList, login: true, header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}})
	if err != nil || got.StatusCode != http.StatusOK || !strings.Contains(got.text, `"tools"`) {
		return found(name, "let the proxy pass all headers that begin with Mcp- on", "tools/list: %s", status(got, err))
	}
	return found(name, "", "tools are listed")
}

// padded returns a ping of size bytes.
func padded(size int) string { return ping + strings.Repeat(" ", size-len(ping)) }

// largeBody sends a body of the largest size that a client may send.
func (t *target) largeBody(ctx context.Context) Finding {
	const name, size = "large body", 1000 << 10
	if t.session == "" {
		return t.needsSession(name)
	}
	got, err := t.ask(ctx, request{body: padded(size), login: true, header: t.in()})
	if err != nil || got.StatusCode != http.StatusOK {
		return found(name, "let the proxy take bodies of 1 MiB (nginx: client_max_body_size 1m)", "%d KiB: %s", size>>10, status(got, err))
	}
	return found(name, "", "%d KiB are accepted", size>>10)
}

// tooLargeBody sends a body that is larger than a client may send.
func (t *target) tooLargeBody(ctx context.Context) Finding {
	const name, size = "too large body", 2 << 20
	if t.session == "" {
		return t.needsSession(name)
	}
	got, err := t.ask(ctx, request{body: padded(size), login: true, header: t.in()})
	if err == nil && got.StatusCode < 400 {
		return found(name, "let the proxy pass requests on to belljar as they are", "%d MiB are answered with %s", size>>20, got.Status)
	}
	return found(name, "", "%d MiB are refused: %s", size>>20, status(got, err))
}

// stream opens the stream of the session, and keeps it open while nothing happens.
func (t *target) stream(ctx context.Context) Finding {
	const name = "stream"
	const buffers = "let the proxy pass streams on without delay (nginx: proxy_buffering off, proxy_http_version 1.1) and without compression"
	if t.session == "" {
		return t.needsSession(name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhurried := *t.client
	unhurried.Timeout = 0
	late := time.AfterFunc(firstByte, cancel)
	res, err := t.send(ctx, &unhurried, request{method: http.MethodGet, login: true, header: t.in()})
	if err != nil {
		return found(name, buffers, "no header arrived within %v: something delays the stream", firstByte)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return found(name, "let the proxy pass GET requests on", "it cannot be opened: %s", res.Status)
	}
	lines := bufio.NewReader(res.Body)
	if _, err := lines.ReadString('\n'); err != nil || !late.Stop() {
		return found(name, buffers, "no byte arrived within %v: something delays the stream", firstByte)
	}
	if coding := res.Header.Get("Content-Encoding"); coding != "" {
		return found(name, buffers, "it is compressed (%s), so parts of it wait for others", coding)
	}
	alive, began := 0, time.Now()
	end := time.AfterFunc(t.Idle, cancel)
	defer end.Stop()
	for {
		line, err := lines.ReadString('\n')
		if err != nil && time.Since(began) < t.Idle-time.Second {
			return found(name, "let streams be silent for a minute at the proxy (nginx: proxy_read_timeout 60s); belljar writes each 15 s", "it was cut after %v: %v", time.Since(began).Round(time.Second), err)
		}
		if err != nil {
			break
		}
		if strings.HasPrefix(line, ":") {
			alive++
		}
	}
	if alive == 0 && t.Idle > 16*time.Second {
		return found(name, buffers, "no comment arrived in %v: something delays the stream", t.Idle)
	}
	return found(name, "", "it begins immediately, and was open for %v; comments: %d", t.Idle, alive)
}

// webSocket opens a WebSocket and closes it. A server without --websocket answers 404.
func (t *target) webSocket(ctx context.Context) Finding {
	const name, fix = "WebSocket", "if clients use WebSockets, let the proxy pass the headers Upgrade and Connection on (nginx: proxy_set_header Upgrade $http_upgrade, proxy_set_header Connection upgrade)"
	if t.login && t.Token == "" {
		return needsToken(name)
	}
	res, err := t.send(ctx, t.client, request{method: http.MethodGet, login: true, header: map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "YmVsbGphciBkb2N0b3IgIQ==", "Sec-WebSocket-Protocol": "mcp",
	}})
	if err != nil {
		return found(name, fix, "%v", err)
	}
	defer res.Body.Close()
	chosen := res.Header.Get("Sec-WebSocket-Protocol")
	switch {
	case res.StatusCode == http.StatusNotFound: // the checks before have used the path, so WebSockets are off
		return found(name, "", "none; they need a server with --websocket")
	case res.StatusCode == http.StatusMethodNotAllowed: // belljar's answer to a GET that is not a handshake
		return unknown(name, fix, "the server received no handshake")
	case res.StatusCode != http.StatusSwitchingProtocols:
		return found(name, fix, "the handshake is answered with %s", res.Status)
	case chosen != "mcp":
		return found(name, "let the proxy pass the header Sec-WebSocket-Protocol on", "the subprotocol is %q instead of mcp", chosen)
	}
	return found(name, "", "a WebSocket opens")
}

// leave ends the session.
func (t *target) leave(ctx context.Context) {
	if t.session != "" {
		// otherwise the session expires by itself
		_, _ = t.ask(ctx, request{method: http.MethodDelete, login: true, header: t.in()})
	}
}

// logLine contains the members of a line of the access log that are read.
type logLine struct {
	From    string `json:"from"`
	Session string `json:"session"`
}

// maxLog is how many bytes at the end of an access log are read.
const maxLog = 1 << 20

// logged finds the line of a request in the access log, by the session id of the request.
func (t *target) logged(ctx context.Context, session string) (line logLine, err error) {
	sum := sha256.Sum256([]byte(session))
	digest := hex.EncodeToString(sum[:4])
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for range 50 {
		text, err := tail(t.AccessLog)
		if err != nil {
			return line, err
		}
		for one := range bytes.Lines(text) {
			if bytes.Contains(one, []byte(digest)) && json.Unmarshal(one, &line) == nil && line.Session == digest {
				return line, nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return line, ctx.Err()
		}
	}
	return line, fmt.Errorf("%s has no line of the request; is it the log of this server?", t.AccessLog)
}

// tail reads the end of a file.
func tail(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(io.NewSectionReader(f, max(0, info.Size()-maxLog), maxLog))
	return text.Bytes(), err
}
