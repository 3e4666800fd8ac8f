package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/sandbox"
)

// bypassName is the argv[0] under which this program makes one attempt to get past a door.
// The first argument is the attempt's name, standard input its place, and standard output
// its outcome.
const bypassName = "belljar-bypass"

// bypass is one attempt. It is made twice: outside, where it must get through because
// otherwise it proves nothing, and in a box.
type bypass struct {
	name string
	// act returns an error if it does not get through, and otherwise what it has reached.
	act func(*place) (string, error)
	// says is a part of what the door says to the agent. It is empty if the kernel refuses,
	// or if nothing is left to refuse.
	says string
	// fails is a part of the error in the box.
	fails string
	// mute is set if no server listens at the address when connections cannot be
	// redirected: then the kernel refuses the attempt, and the door does not notice it.
	mute bool
	// alone is the reason why nothing can be shown outside. It is empty if the attempt is
	// made there.
	alone string
}

// place is where an attempt is made.
type place struct {
	Outside  bool
	Token    string            // token of the server
	Names    map[string]string // names that can be looked up outside, with their addresses
	Fake     string            // address to which another box connects for other.example
	Abstract string            // name of a unix socket outside
	Pid      int               // pid of the program that has the door
}

// doorHost is the door's address in a box. Outside it is an ordinary address.
const doorHost = "198.19.255.254"

var doorProxy = sandbox.Proxy

// bypassPatience bounds one step of an attempt.
const bypassPatience = 5 * time.Second

// outcome is the report of a prober.
type outcome struct {
	Through bool
	Detail  string
}

// bypassMain makes an attempt if this program was started for one, and then
// does not return.
func bypassMain() {
	if filepath.Base(os.Args[0]) != bypassName || len(os.Args) < 2 {
		return
	}
	var p place
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	net.DefaultResolver.PreferGo = true
	act, ok := allBypassActs()[os.Args[1]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no attempt of that name")
		os.Exit(1)
	}
	b := bypass{act: act}
	_ = json.NewEncoder(os.Stdout).Encode(b.try(&p))
	os.Exit(0)
}

func (b *bypass) try(p *place) outcome {
	detail, err := b.act(p)
	if err != nil {
		return outcome{Detail: err.Error()}
	}
	return outcome{Through: true, Detail: detail}
}

// inside makes the attempt in a box.
func (b *bypass) inside(t testing.TB, box *sandbox.Box, p *place) (outcome, sandbox.Result) {
	t.Helper()
	return b.run(t, box, sandbox.Cmd{Argv: []string{"/workspace/" + bypassName, b.name}}, p)
}

// run does the same as inside, with a command that finally starts the prober.
func (b *bypass) run(t testing.TB, box *sandbox.Box, c sandbox.Cmd, p *place) (outcome, sandbox.Result) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c.Grant, c.Stdin, c.Timeout = box.Grant(), text, time.Minute
	r, err := box.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if out := read(t, r.Output); json.Unmarshal([]byte(out), &o) != nil {
		t.Fatalf("the prober said %q (%v, code %d)", out, r.Status, r.Code)
	}
	return o, r
}

// addProber puts this program into a workspace.
func addProber(t testing.TB, workspace string) {
	t.Helper()
	if err := os.Chmod(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(workspace, bypassName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
}

// lookUp returns the address of a name: in a box, the answer of its resolver.
func (p *place) lookUp(name string) (string, error) {
	if net.ParseIP(name) != nil {
		return name, nil
	}
	if p.Outside {
		if addr, ok := p.Names[strings.ToLower(strings.TrimSuffix(name, "."))]; ok {
			return strings.Fields(addr)[0], nil
		}
		return "", fmt.Errorf("look up %s: not known", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bypassPatience)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupIP(ctx, "ip4", name)
	if err != nil {
		return "", err
	}
	return addrs[0].String(), nil
}

// dial connects to a port of a name or an address.
func (p *place) dial(target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	addr, err := p.lookUp(host)
	if err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(addr, port), bypassPatience)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(bypassPatience))
}

// hear reads the answer of a server until it contains all words, until it ends, or until
// the server is silent.
func hear(c net.Conn, words ...string) ([]byte, error) {
	var all []byte
	buf := make([]byte, 64<<10)
	for len(all) < 4<<20 {
		n, err := c.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			if len(all) > 0 {
				return all, nil
			}
			return nil, fmt.Errorf("read: %w", err)
		}
		if len(words) > 0 && contains(all, words...) == nil {
			return all, nil
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * quiet))
	}
	return all, nil
}

// ask sends a text to a server of the internet. It fails unless the answer contains the
// server's token and the words.
func (p *place) ask(target, text string, words ...string) (string, error) {
	c, err := p.dial(target)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return p.askOn(c, text, words...)
}

func (p *place) askOn(c net.Conn, text string, words ...string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	words = append([]string{p.Token}, words...)
	answer, err := hear(c, words...)
	if err != nil {
		return "", err
	}
	if err := contains(answer, words...); err != nil {
		return "", err
	}
	_, shown, _ := bytes.Cut(answer, []byte(p.Token))
	return fmt.Sprintf("%.80q", shown), nil
}

// asks returns an act that calls ask.
func asks(target, text string, words ...string) func(*place) (string, error) {
	return func(p *place) (string, error) { return p.ask(target, text, words...) }
}

// get returns a GET request for a path, with further header lines.
func get(host, path string, lines ...string) string {
	return request("GET", host, path, lines...)
}

func request(method, host, path string, lines ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	return b.String() + "\r\n"
}

// connects asks the proxy for a tunnel and sends a text through it.
func connects(target, text string, words ...string) func(*place) (string, error) {
	return func(p *place) (string, error) {
		c, err := p.dial(doorProxy)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if err := tunnelOn(c, target); err != nil {
			return "", err
		}
		return p.askOn(c, text, words...)
	}
}

// tunnelOn asks for a tunnel on a connection.
func tunnelOn(c net.Conn, target string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
		return fmt.Errorf("CONNECT: %.300q", answer[:n])
	}
	return nil
}
