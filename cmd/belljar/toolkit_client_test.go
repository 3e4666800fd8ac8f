package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/tools"
)

// methodParams and methodResult are the parameters and the result of a tool that is called
// as a method.
type methodParams struct {
	sdk.ParamsBase
	Toolchain string `json:"toolchain"`
}

type methodResult struct {
	sdk.ResultBase
	Files   int `json:"files"`
	Summary struct {
		Functions int `json:"functions"`
	} `json:"summary"`
}

// A client that is not part of belljar uses the toolkit in both eras and over both
// transports: it lists the tools, calls one with progress, reads the whole result and a
// template, completes the address of a template, calls a tool as a method, and cancels an
// analysis, which leaves no process behind.
func TestClientsUseTheToolkit(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		p := newPlace(t)
		p.flags = []string{"--toolkit"}
		for i := range 300 {
			p.file(t, fmt.Sprintf("ws/p%d/a.go", i), "package p\n\nfunc F() {}\n")
		}
		stages := make(chan string, 1024)
		c := p.start(t, w).connect(t, w, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			stages <- r.Params.Message
		}})
		listed, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, tool := range listed.Tools {
			has[tool.Name] = true
		}
		for _, name := range tools.ToolkitNames() {
			if !has[name] {
				t.Errorf("%s is not listed", name)
			}
		}

		begin := func(ctx context.Context) (*sdk.CallToolResult, error) {
			params := &sdk.CallToolParams{Name: "analyze_complexity", Arguments: map[string]any{}}
			params.SetProgressToken("p")
			return c.CallTool(ctx, params)
		}
		r, err := begin(t.Context())
		if err != nil || !strings.HasPrefix(strings.Join(textsOf(r), ""), "300 functions in 300 files") {
			t.Fatalf("got %v, %v", r, err)
		}
		if got := <-stages; got != "list files" {
			t.Errorf("the first progress is %q, want that files are listed", got)
		}
		said := strings.Join(textsOf(r), "")
		_, whole, _ := strings.Cut(said, "output=")
		whole, _, _ = strings.Cut(whole, "]")
		read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: strings.Fields(whole + " ")[0]})
		if err != nil || len(read.Contents) != 1 || !json.Valid([]byte(read.Contents[0].Text)) {
			t.Errorf("the whole result %q: got %v, %v, want JSON", whole, read, err)
		}

		if read, err = c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "template://makefile/go/cli"}); err != nil || read.Contents[0].MIMEType != "text/x-makefile" {
			t.Errorf("a template: got %v, %v", read, err)
		}
		completed, err := c.Complete(t.Context(), &sdk.CompleteParams{
			Ref: &sdk.CompleteReference{Type: "ref/resource", URI: "template://{category}/{toolchain}/{variant}"}, Argument: sdk.CompleteParamsArgument{Name: "toolchain", Value: "py"},
		})
		if err != nil || fmt.Sprint(completed.Completion.Values) != "[python-uv]" {
			t.Errorf("a completion: got %v, %v", completed, err)
		}
		method, err := sdk.CallCustomMethod[*methodParams, *methodResult](t.Context(), c.ClientSession, "analyze_complexity", &methodParams{Toolchain: "go"})
		if err != nil || method.Files != 300 || method.Summary.Functions != 300 {
			t.Errorf("as a method: got %+v, %v", method, err)
		}

		for len(stages) > 0 {
			<-stages
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			_, err := begin(ctx)
			stopped <- err
		}()
		<-stages
		cancel()
		if err := <-stopped; err == nil {
			t.Error("an analysis that was cancelled has a result")
		}
		const helpers = `n=0; for f in /proc/[0-9]*/cmdline; do case $(tr '\0' ' ' <$f 2>/dev/null) in /opt/belljar/toolkit*) n=$((n+1));; esac; done; echo $n`
		if !testenv.Until(10*time.Second, func() bool { return strings.HasPrefix(c.all(t, "Bash", map[string]any{"command": helpers}), "0\n") }) {
			t.Error("the helper of a cancelled analysis still runs")
		}
	})
}
