package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Suite is the [mcp.Suite] of the conformance suite, for one server.
type Suite struct{ tasks map[string]task }

// Defers implements [mcp.Suite].
func (suite *Suite) Defers(name string, call any) (deferral mcp.Deferral) {
	t, ours := suite.tasks[name]
	if !ours {
		return deferral
	}
	req, ok := call.(*sdk.CallToolRequest)
	return mcp.Deferral{Always: true, Required: t.required, Asks: ok && t.early != nil && t.early(req)}
}

// A very small picture, one red dot, and a very small sound, silence.
const (
	dotPNG     = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	silenceWAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// bits decodes a constant in base64.
func bits(text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic("conformance: " + err.Error())
	}
	return b
}

type input struct {
	Name string `json:"name,omitempty"`
}

func (input) Facts() policies.Facts { return policies.Facts{} }

// Register adds the tools, resources and prompts that the suite calls by name. below is the
// server of the go-sdk.
func (suite *Suite) Register(s *mcp.Server, below any) {
	server, ok := below.(*sdk.Server)
	if !ok {
		panic(fmt.Sprintf("conformance: the server below is a %T", below))
	}
	add := func(name, description string, h mcp.Handler[input]) {
		mcp.AddTool(s, mcp.Tool{Name: name, Description: description, ReadOnly: true}, h)
	}
	add("test_simple_text", "returns a text", func(context.Context, mcp.Call, input) (*mcp.Result, error) {
		return mcp.Text("This is a simple text response for testing."), nil
	})
	add("test_image_content", "answers a picture", func(context.Context, mcp.Call, input) (*mcp.Result, error) {
		return &mcp.Result{Content: []mcp.Content{{Data: bits(dotPNG), MIME: "image/png"}}}, nil
	})
	add("test_error_handling", "fails", func(context.Context, mcp.Call, input) (*mcp.Result, error) {
		return nil, errors.New("this tool fails whenever it is called")
	})
	add("test_tool_with_progress", "reports its progress", func(ctx context.Context, call mcp.Call, _ input) (*mcp.Result, error) {
		for _, percent := range []float64{0, 50, 100} {
			call.Progress(percent, 100, fmt.Sprintf("%.0f of 100", percent))
			if err := pause.For(ctx, 50*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return mcp.Text("done"), nil
	})
	add("test_streaming_elicitation", "returns a text, and asks nothing", func(context.Context, mcp.Call, input) (*mcp.Result, error) {
		return mcp.Text("nothing was asked"), nil
	})
	add("greet", "greets", func(_ context.Context, _ mcp.Call, in input) (*mcp.Result, error) {
		return mcp.Text("Hello, %s!", in.Name), nil
	})
	addResources(s)
	addPrompts(s, server)
	addTools(s, server)
	suite.tasks = taskTools(server)
}

func addResources(s *mcp.Server) {
	fixed := func(uri, mime string, data []byte) {
		name := strings.TrimPrefix(uri, "test://")
		s.AddResource(mcp.Resource{
			Template: uri, Name: name, MIME: mime,
			List: func(_ context.Context, session *mcp.Session) ([]mcp.Entry, error) {
				return []mcp.Entry{{URI: uri, Name: name, MIME: mime, Description: "of the suite"}}, nil
			},
			Read: func(context.Context, *mcp.Session, string) ([]byte, string, error) { return data, mime, nil },
		})
	}
	fixed("test://static-text", "text/plain", []byte("This is the content of the static text resource."))
	fixed("test://static-binary", "image/png", bits(dotPNG))
	fixed("test://watched-resource", "text/plain", []byte("watched"))
	s.AddResource(mcp.Resource{
		Template: "test://template/{id}/data", Name: "template", MIME: "application/json",
		Read: func(_ context.Context, _ *mcp.Session, uri string) ([]byte, string, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(uri, "test://template/"), "/data")
			text, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
			return text, "", err
		},
	})
}

func addPrompts(s *mcp.Server, server *sdk.Server) {
	says := func(contents ...mcp.Content) []mcp.Message {
		var out []mcp.Message
		for _, c := range contents {
			out = append(out, mcp.Message{Content: c})
		}
		return out
	}
	s.AddPrompt(mcp.Prompt{Name: "test_simple_prompt", Title: "Simple", Description: "has no arguments"},
		func(context.Context, *mcp.Session, map[string]string) ([]mcp.Message, error) {
			return says(mcp.Content{Text: "This is a simple prompt for testing."}), nil
		})
	s.AddPrompt(
		mcp.Prompt{Name: "test_prompt_with_arguments", Description: "has arguments", Arguments: []mcp.Argument{
			{Name: "arg1", Description: "the first", Required: true}, {Name: "arg2", Description: "the second", Required: true},
		}},
		func(_ context.Context, _ *mcp.Session, args map[string]string) ([]mcp.Message, error) {
			return says(mcp.Content{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])}), nil
		})
	s.AddPrompt(mcp.Prompt{Name: "test_prompt_with_image", Description: "holds a picture"},
		func(context.Context, *mcp.Session, map[string]string) ([]mcp.Message, error) {
			return says(mcp.Content{Data: bits(dotPNG), MIME: "image/png"}, mcp.Content{Text: "Look at the picture above."}), nil
		})
	s.AddPrompt(
		mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: "holds a resource", Arguments: []mcp.Argument{
			{Name: "resourceUri", Description: "which", Required: true},
		}},
		func(_ context.Context, _ *mcp.Session, args map[string]string) ([]mcp.Message, error) {
			block, err := json.Marshal(map[string]any{"type": "resource", "resource": map[string]string{
				"uri": args["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content for testing.",
			}})
			return says(mcp.Content{Raw: block}, mcp.Content{Text: "Read the resource above."}), err
		})
	server.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "asks something first"},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if said := accepted(req.Params.InputResponses, "user_context"); said != nil {
				return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
					{Role: "user", Content: &sdk.TextContent{Text: fmt.Sprint("Context: ", said["context"])}},
				}}, nil
			}
			return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": form1("What is the subject?", "context", "string")}}, nil
		})
}

// form1 returns a form that asks for one value.
func form1(message, name, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name},
	}}
}

// accepted returns the answer of a person who accepted a form, or nil.
func accepted(all sdk.InputResponseMap, key string) map[string]any {
	said, ok := all[key].(*sdk.ElicitResult)
	if !ok || said == nil || said.Action != "accept" {
		return nil
	}
	return said.Content
}
