package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/wire"
)

// everything returns a server of the go-sdk with a tool for each thing that a server may
// do. The tool hang sends to hanging when it runs.
func everything(hanging chan<- string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "everything", Version: "1"}, &sdk.ServerOptions{Instructions: "be kind", PageSize: 2})
	schema := map[string]any{"type": "object"}
	add := func(name string, h sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: schema}, h)
	}
	text := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i)}); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("ask", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["name"].(*sdk.ElicitResult); ok {
			return text(fmt.Sprintf("%s %v", answer.Action, answer.Content["name"])), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"name": &sdk.ElicitParams{Message: "your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)}}}, nil
	})
	add("hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		hanging <- "it hangs"
		<-ctx.Done()
		hanging <- "it was cancelled"
		return nil, ctx.Err()
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add("more", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("more"), nil })
		return text("grown"), nil
	})
	return s
}

// TestServersOfTheSDK tests servers of the go-sdk, in both eras and over each transport:
// list, call, progress, question, cancel, change of a list, and an error.
func TestServersOfTheSDK(t *testing.T) {
	over := map[string]func(t *testing.T, hanging chan<- string) Transport{
		"pipes": func(t *testing.T, hanging chan<- string) Transport {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ss, err := everything(hanging).Connect(t.Context(), &sdk.IOTransport{Reader: inR, Writer: outW}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ss.Close() })
			return Pipes{In: inW, Out: outR}
		},
		"http": func(t *testing.T, hanging chan<- string) Transport {
			return overHTTP(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return everything(hanging) }, nil), HTTP{})
		},
		"http as JSON": func(t *testing.T, hanging chan<- string) Transport {
			return overHTTP(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return everything(hanging) }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true}), HTTP{})
		},
		"sse": func(t *testing.T, hanging chan<- string) Transport {
			return overHTTP(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return everything(hanging) }, nil), HTTP{SSE: true})
		},
		"sse, to be found out": func(t *testing.T, hanging chan<- string) Transport {
			return overHTTP(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return everything(hanging) }, nil), HTTP{})
		},
	}
	for name, transport := range over {
		for _, era := range []Era{Auto, Legacy} {
			t.Run(fmt.Sprint(name, " ", era), func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), 30*time.Second*testenv.Patience(t))
				defer stop()
				changed := make(chan struct{}, 16)
				hanging := make(chan string, 2)
				c, err := Open(ctx, transport(t, hanging), Config{
					Era: era, Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
					OnRequest: func(_ context.Context, r Request) (json.RawMessage, error) {
						if r.Owner != "ann" || !strings.Contains(string(r.Params), "your name?") {
							t.Errorf("the server asked %+v", r)
						}
						return json.RawMessage(`{"action":"accept","content":{"name":"Ann"}}`), nil
					},
					OnNotification: func(n Notification) {
						if n.Method == "notifications/tools/list_changed" {
							changed <- struct{}{}
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				info := c.Info()
				t.Logf("revision %s", info.Revision)
				if !strings.Contains(string(info.Server), "everything") || info.Instructions != "be kind" {
					t.Errorf("got %+v", info)
				}
				l, err := c.List(ctx, "tools/list", "tools", CallOptions{})
				if err != nil || len(l.Items) != 5 || len(l.Missing) != 0 {
					t.Errorf("got %s, %v", l.Items, err)
				}
				run := func(tool, args, want string, o CallOptions) {
					t.Helper()
					o.Owner = "ann"
					r, err := c.Call(ctx, "tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args)), o)
					if err != nil || !strings.Contains(string(r), want) {
						t.Errorf("%s: got %s, %v", tool, r, err)
					}
				}
				run("echo", `{"n":12345678901234567890}`, `{\"n\":12345678901234567890}`, CallOptions{})
				stateless := strings.Contains(name, "JSON")
				if !stateless || info.Era == wire.Modern {
					run("ask", `{}`, "accept Ann", CallOptions{})
				}
				if !stateless {
					var steps []string
					run("progress", `{}`, "done", CallOptions{Progress: func(p json.RawMessage) { steps = append(steps, string(p)) }})
					if fmt.Sprint(steps) != `[{"progress":0} {"progress":1} {"progress":2}]` {
						t.Errorf("progress %v", steps)
					}
				}
				if !stateless || info.Era == wire.Modern { // otherwise the SDK's server cannot be notified of a cancel
					short, cancel := context.WithCancel(ctx)
					done := invoke(short, c, "tools/call", `{"name":"hang"}`, CallOptions{})
					<-hanging
					run("echo", `{"x":1}`, `x`, CallOptions{})
					cancel()
					if r := <-done; r.err == nil {
						t.Errorf("the call that hangs returned %s", r.result)
					}
					<-hanging
				}
				if !stateless && info.Era == wire.Legacy || name == "pipes" {
					run("grow", `{}`, "grown", CallOptions{})
					select {
					case <-changed:
					case <-ctx.Done():
						t.Error("the change of the list was not heard of")
					}
				}
				if _, err := c.Call(ctx, "tools/call", json.RawMessage(`{"name":"none"}`), CallOptions{}); err == nil || !strings.Contains(err.Error(), "none") {
					t.Errorf("an unknown tool: %v", err)
				}
				if st := c.Stats(); st.Bad+st.Unasked+st.WrongID+st.Refused != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

func overHTTP(t *testing.T, h http.Handler, transport HTTP) Transport {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	transport.URL, transport.Client = s.URL, client(t)
	return transport
}
