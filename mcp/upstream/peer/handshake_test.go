package peer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp/wire"
)

func TestHandshake(t *testing.T) {
	unsupported := func(supported string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported","data":{"supported":` + supported + `,"requested":"2026-07-28"}}}`
	}
	for _, tt := range []struct {
		name string
		cfg  Config
		play func(s *server)
		want string // the revision, or a part of the error
		took time.Duration
	}{
		{"modern", Config{}, func(s *server) { s.greet(wire.Modern) }, "2026-07-28", 0},
		{"legacy", Config{}, func(s *server) { s.greet(wire.Legacy) }, "2025-11-25", 0},
		{"legacy, known", Config{Era: Legacy}, func(s *server) { s.initialize(helloLegacy) }, "2025-11-25", 0},
		{"modern, known", Config{Era: Modern}, func(s *server) { s.greet(wire.Modern) }, "2026-07-28", 0},
		{"modern wanted, legacy there", Config{Era: Modern}, func(s *server) { s.fail(s.want("server/discover"), -32601, "unknown method") }, "unknown method", 0},
		{"legacy, old", Config{}, func(s *server) {
			s.fail(s.want("server/discover"), 0, "no")
			s.initialize(`{"protocolVersion":"2024-11-05"}`)
		}, "2024-11-05", 0},
		{"both eras, modern refused", Config{}, func(s *server) {
			s.want("server/discover")
			s.say("%s", unsupported(`["2025-11-25","2024-11-05"]`))
			s.initialize(helloLegacy)
		}, "2025-11-25", 0},
		{"of the future", Config{}, func(s *server) {
			s.want("server/discover")
			s.say("%s", unsupported(`["2027-01-01"]`))
		}, "it supports 2027-01-01", 0},
		{"of the future, by a result", Config{}, func(s *server) {
			s.result(s.want("server/discover"), `{"supportedVersions":["2027-01-01"]}`)
		}, "it supports 2027-01-01", 0},
		{"modern, wants a capability", Config{}, func(s *server) { s.fail(s.want("server/discover"), -32021, "sampling is needed") }, "sampling is needed", 0},
		{"result without versions", Config{}, func(s *server) {
			s.result(s.want("server/discover"), `{}`)
			s.initialize(helloLegacy)
		}, "2025-11-25", 0},
		{"silent about discover", Config{}, func(s *server) {
			s.want("server/discover")
			s.initialize(helloLegacy)
		}, "2025-11-25", 2 * time.Second},
		{"slow and modern", Config{}, func(s *server) {
			d := s.want("server/discover")
			i := s.want("initialize")
			time.Sleep(5 * time.Second)
			s.fail(i, -32601, "no such method")
			s.result(d, helloModern)
		}, "2026-07-28", 7 * time.Second},
		{"slow and legacy", Config{}, func(s *server) {
			d := s.want("server/discover")
			i := s.want("initialize")
			time.Sleep(5 * time.Second)
			s.fail(d, -32601, "no such method")
			s.result(i, helloLegacy)
			s.want("notifications/initialized")
		}, "2025-11-25", 7 * time.Second},
		{"slow, refuses both", Config{}, func(s *server) {
			d := s.want("server/discover")
			i := s.want("initialize")
			s.fail(d, -32601, "not this")
			s.fail(i, -32000, "nor that")
		}, "nor that", 2 * time.Second},
		// In a widely known transcript of an MCP server, the id is always 0.
		{"always answers id 0", Config{}, func(s *server) {
			s.want("server/discover")
			s.say(`{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}`)
			s.want("initialize")
			s.say(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2024-11-05","capabilities":{"prompts":{"listChanged":false},"resources":{"subscribe":false,"listChanged":false},"tools":{"listChanged":false}},"serverInfo":{"name":"Cangjie Magic Agent Server","version":"0.1"}}}`)
			s.want("notifications/initialized")
		}, "2024-11-05", 0},
		{"answers id 0, silent about discover", Config{}, func(s *server) {
			s.want("server/discover")
			s.want("initialize")
			s.say(`{"jsonrpc":"2.0","id":0,"result":` + helloLegacy + `}`)
			s.want("notifications/initialized")
		}, "2025-11-25", 2 * time.Second},
		{"repeats any revision", Config{}, func(s *server) {
			s.fail(s.want("server/discover"), -32601, "no")
			s.result(s.want("initialize"), `{"protocolVersion":"2099-01-01"}`)
		}, `chose revision "2099-01-01"`, 0},
		{"no revision", Config{}, func(s *server) {
			s.fail(s.want("server/discover"), -32601, "no")
			s.result(s.want("initialize"), `{"protocolVersion":7}`)
		}, `chose revision ""`, 0},
		{"ends at once", Config{}, func(s *server) {
			s.want("server/discover")
			s.out.Close()
		}, ErrProbe.Error(), 0},
		{"ends at initialize", Config{}, func(s *server) {
			s.fail(s.want("server/discover"), -32601, "no")
			s.want("initialize")
			s.out.Close()
		}, ErrEnded.Error(), 0},
		{"wrong configuration", Config{Capabilities: []byte(`[]`)}, func(*server) {}, "Capabilities must be a JSON object", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c, s, err := dial(t, tt.cfg, tt.play)
			if err != nil {
				contains(t, tt.name, err, tt.want)
			} else if c.Info().Revision != tt.want {
				t.Errorf("%s: got %+v, want %s", tt.name, c.Info(), tt.want)
			}
			if took := time.Since(began); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
			if err == nil {
				synctest.Wait()
				s.quiet()
			}
		})
	}
}

// Open ends with its context, and leaves nothing behind.
func TestHandshakeWithoutAnEnd(t *testing.T) {
	for name, play := range map[string]func(s *server){
		"silent":        func(s *server) { s.want("server/discover") },
		"then silent":   func(s *server) { s.fail(s.want("server/discover"), -32601, "no") },
		"only to ping":  func(s *server) { s.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) },
		"other answers": func(s *server) { s.say(`{"jsonrpc":"2.0","id":9,"method":"roots/list"}`) },
	} {
		for _, era := range []Era{Auto, Modern, Legacy} {
			synctest.Test(t, func(t *testing.T) {
				s, pipes := newServer(t)
				late := errors.New("30 s are over")
				ctx, stop := context.WithTimeoutCause(t.Context(), 30*time.Second, late)
				defer stop()
				go func() {
					if era == Auto || name == "only to ping" || name == "other answers" {
						play(s)
					}
				}()
				_, err := Open(ctx, pipes, Config{Era: era})
				is(t, name, err, late)
			})
		}
	}
}

func TestInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
			hello := map[wire.Era]string{wire.Legacy: helloLegacy, wire.Modern: helloModern}[era]
			hello = strings.TrimSuffix(hello, "}") + `,"instructions":"do \u0061","new":[1]}`
			c, _, err := dial(t, Config{}, func(s *server) {
				m := s.want("server/discover")
				if era == wire.Legacy {
					s.fail(m, -32601, "no")
					m = s.want("initialize")
				}
				s.result(m, hello)
			})
			if err != nil {
				t.Fatal(err)
			}
			info := c.Info()
			if info.Era != era || string(info.Server) != `{"name":"toy","version":"1"}` || info.Instructions != "do a" ||
				!strings.HasPrefix(string(info.Capabilities), `{"tools":`) || string(info.Result) != hello {
				t.Errorf("got %+v", info)
			}
		}
	})
}

// A modern server notifies of changes only if the client listens.
func TestSubscription(t *testing.T) {
	hello := strings.Replace(helloModern, `"tools":{}`, `"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"listChanged":true}`, 1)
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c, s, err := dial(t, Config{OnNotification: func(n Notification) { got = append(got, n.Method) }}, func(s *server) {
			s.result(s.want("server/discover"), hello)
		})
		if err != nil {
			t.Fatal(err)
		}
		m := s.want("subscriptions/listen")
		if string(m.Params.Notifications) != `{"toolsListChanged":true,"resourcesListChanged":true}` {
			t.Errorf("the client wants %s", m.Params.Notifications)
		}
		s.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		synctest.Wait()
		if len(got) != 2 {
			t.Errorf("got %v", got)
		}
		// The subscription does not count as a call: an answer with a wrong id is still for
		// the only call.
		done := invoke(t.Context(), c, "x", `{}`, CallOptions{})
		s.want("x")
		s.say(`{"jsonrpc":"2.0","id":0,"result":{"x":1}}`)
		if r := good(t, done); r != `{"x":1}` {
			t.Errorf("got %s", r)
		}
		// When the server ends the subscription, it is opened again, at a bounded rate.
		began := time.Now()
		s.result(m, `{}`)
		m = s.want("subscriptions/listen")
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID)
		m = s.want("subscriptions/listen")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		s.fail(m, -32601, "no")
		time.Sleep(time.Hour)
		s.quiet()
		if why := c.Stats().Subscribe; why != "no" {
			t.Errorf("the reason is %q", why)
		}
	})
	// Close ends an open subscription.
	synctest.Test(t, func(t *testing.T) {
		c, s, err := dial(t, Config{OnNotification: func(Notification) {}}, func(s *server) { s.result(s.want("server/discover"), hello) })
		if err != nil {
			t.Fatal(err)
		}
		s.want("subscriptions/listen")
		c.Close()
	})
}
