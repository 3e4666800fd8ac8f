package sandbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// A box reaches the hosts that it may reach, with redirection and without. Everything else
// is refused immediately, and the result says so.
func TestDoor(t *testing.T) {
	for _, way := range []string{"redirected", "by port"} {
		t.Run(way, func(t *testing.T) {
			s, _ := world(t)
			if way == "by port" {
				s.ByPort()
			}
			port, other := server(t), server(t)
			b, err := s.Open(t.Context(), "box", clientGrant(t, port))
			if err != nil {
				t.Fatal(err)
			}
			if m := inBox(t, b, port, "connect", 3); m.Error != "" {
				t.Errorf("connect to an allowed port: %s", m.Error)
			}
			if m := inBox(t, b, other, "connect", 1); !strings.Contains(m.Error, "refused") && !strings.Contains(m.Error, "reset") {
				t.Errorf("connect to a port that is not allowed: got %q, want that it is refused at once", m.Error)
			}
			// The box's own loopback, and UDP and names that lead nowhere.
			r, text := shell(t, b, lines(
				`exec 3<>/dev/udp/8.8.8.8/53; echo x >&3; cat <&3; echo "udp $?"`,
				`(echo > /dev/tcp/127.0.0.1/9) 2>&1 | grep -o refused`,
				`getent hosts nobody.test; echo "resolve $?"`,
				`getent hosts host.belljar.internal`,
			))
			if r.Code != 0 || !strings.Contains(text, "refused") || !strings.Contains(text, "udp 1") || !strings.Contains(text, "resolve 2") || !strings.Contains(text, "198.18.") {
				t.Errorf("got %d, %q", r.Code, text)
			}
		})
	}
}

// The result of a command says what the network refused while it ran, with and
// without a network.
func TestBlocked(t *testing.T) {
	for _, c := range []struct {
		name, profile, script string
		want                  []string
	}{
		{
			"no network", "fs: {system: true}", "getent hosts pypi.example",
			[]string{"look-up of pypi.example refused", `profile "test" has no network`, "The host is not down."},
		},
		{
			"another name", "fs: {system: true}\nnet: {mode: proxy, allow: [pypi.example]}", "getent hosts npm.example",
			[]string{"look-up of npm.example refused", "pypi.example"},
		},
		{
			"an address", "fs: {system: true}\nnet: {mode: proxy, allow: [pypi.example]}", "echo > /dev/tcp/169.254.169.254/80",
			[]string{"connect to 169.254.169.254:80 refused"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := openBox(t, policytest.GrantProfile(t, c.profile))
			r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: c.script, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Blocked) != 1 {
				t.Fatalf("got %+v, want one refusal", r.Blocked)
			}
			for _, want := range c.want {
				if got := r.Blocked[0].Refusal(); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
			if r, err = b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "true", Timeout: time.Minute}); err != nil || len(r.Blocked) != 0 {
				t.Errorf("the next command: got %v, %+v, want nothing of the one before", err, r.Blocked)
			}
		})
	}
}

// If connections are not redirected, a new policy that names another port opens this port
// also in boxes that exist already.
func TestRegrantByPort(t *testing.T) {
	s, _ := world(t)
	s.ByPort()
	first, second := server(t), server(t)
	b, err := s.Open(t.Context(), "box", clientGrant(t, first))
	if err != nil {
		t.Fatal(err)
	}
	policy := func(port int) *policies.Policy {
		p, err := policies.Parse("new.yaml", fmt.Appendf(nil, `version: 1
profiles: {test: {net: {mode: proxy, allow_private: ["host.belljar.internal:%d"]}}}`, port))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s.Regrant(t.Context(), policy(second))
	if m := inBox(t, b, second, "connect", 1); m.Error != "" {
		t.Errorf("connect to the port that was added: %s", m.Error)
	}
	if m := inBox(t, b, first, "connect", 1); m.Error == "" {
		t.Error("the port that was taken away is reached")
	}
}
