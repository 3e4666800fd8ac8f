// Command mcpgo runs the client of mark3labs/mcp-go as a program. It connects to the server
// that its arguments name, by command or by URL. It reads one request on each line of
// standard input and answers each request with one line. It is a separate module, so that
// belljar's module does not depend on mcp-go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// request is a line of input. Op is list, call, cancel, resources, read, prompts or prompt;
// cancel cancels the call with the same ID.
type request struct {
	ID   int            `json:"id"`
	Op   string         `json:"op"`
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// answer is a line of output: the result of request ID, or, if Progress is set, a notice
// that a progress notification for its call arrived.
type answer struct {
	ID       int    `json:"id"`
	Result   any    `json:"result,omitempty"`
	Error    string `json:"error,omitempty"`
	Progress bool   `json:"progress,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mcpgo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx := context.Background()
	c, err := connect(ctx, args)
	if err != nil {
		return err
	}
	defer c.Close()

	var mu sync.Mutex // guards out and calls
	out := json.NewEncoder(os.Stdout)
	calls := map[int]context.CancelFunc{}
	say := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a)
	}
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if token, ok := n.Params.AdditionalFields["progressToken"].(float64); ok {
			say(answer{ID: int(token), Progress: true})
		}
	})
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	init.Params.ClientInfo = mcp.Implementation{Name: "clients", Version: "1"}
	if _, err := c.Initialize(ctx, init); err != nil {
		return err
	}
	say(answer{})

	var running sync.WaitGroup
	defer running.Wait()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		mu.Lock()
		if r.Op == "cancel" {
			calls[r.ID]()
			mu.Unlock()
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		calls[r.ID] = cancel
		mu.Unlock()
		running.Go(func() {
			result, err := do(ctx, c, r)
			if err != nil {
				say(answer{ID: r.ID, Error: err.Error()})
				return
			}
			say(answer{ID: r.ID, Result: result})
		})
	}
	return nil
}

// connect starts the client. A stdio client already runs when it is returned by the
// constructor, but it receives no notifications before Start.
func connect(ctx context.Context, args []string) (*client.Client, error) {
	var c *client.Client
	var err error
	if strings.HasPrefix(args[0], "http") {
		c, err = client.NewStreamableHttpClient(args[0])
	} else {
		c, err = client.NewStdioMCPClient(args[0], nil, args[1:]...)
	}
	if err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}

func do(ctx context.Context, c *client.Client, r request) (any, error) {
	switch r.Op {
	case "list":
		return c.ListTools(ctx, mcp.ListToolsRequest{})
	case "call":
		var call mcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = r.Name, r.Args
		call.Params.Meta = &mcp.Meta{ProgressToken: r.ID}
		return c.CallTool(ctx, call)
	case "resources":
		return c.ListResources(ctx, mcp.ListResourcesRequest{})
	case "read":
		var read mcp.ReadResourceRequest
		read.Params.URI = r.Name
		return c.ReadResource(ctx, read)
	case "prompts":
		return c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	case "prompt":
		var get mcp.GetPromptRequest
		get.Params.Name, get.Params.Arguments = r.Name, map[string]string{}
		for k, v := range r.Args {
			get.Params.Arguments[k] = fmt.Sprint(v)
		}
		return c.GetPrompt(ctx, get)
	default:
		return nil, fmt.Errorf("operation %q is not known", r.Op)
	}
}
