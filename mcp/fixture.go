package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/policies"
)

// The protocol's conformance suite calls tools and reads resources that it
// knows by name (README of @modelcontextprotocol/conformance). With
// Config.Fixtures a server has them, so that the suite tries the transports,
// eras and limits that real tools have. This file makes those that this package
// can express; those that only the sdk can, for example audio or sampling, are
// registered with the sdk in fixturesdk.go and fixturetask.go.

// The smallest picture and the smallest sound: one red dot, and silence.
const (
	fixturePNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	fixtureWAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// bits is a constant of base64 that is known to be one.
func bits(text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	return b
}

type fixtureInput struct {
	Name string `json:"name,omitempty"`
}

func (fixtureInput) Facts() policies.Facts { return policies.Facts{} }

// addFixtures registers all that the suite needs.
func (s *Server) addFixtures() {
	add := func(name, description string, h Handler[fixtureInput]) {
		AddTool(s, Tool{Name: name, Description: description, ReadOnly: true}, h)
	}
	add("test_simple_text", "answers a text", func(context.Context, Call, fixtureInput) (*Result, error) {
		return Text("This is a simple text response for testing."), nil
	})
	add("test_image_content", "answers a picture", func(context.Context, Call, fixtureInput) (*Result, error) {
		return &Result{Content: []Content{{Data: bits(fixturePNG), MIME: "image/png"}}}, nil
	})
	add("test_error_handling", "fails", func(context.Context, Call, fixtureInput) (*Result, error) {
		return nil, errors.New("this tool fails whenever it is called")
	})
	add("test_tool_with_progress", "tells its progress", func(ctx context.Context, call Call, _ fixtureInput) (*Result, error) {
		for _, percent := range []float64{0, 50, 100} {
			call.Progress(percent, 100, fmt.Sprintf("%.0f of 100", percent))
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return Text("done"), nil
	})
	add("test_streaming_elicitation", "answers a text, and asks nothing", func(context.Context, Call, fixtureInput) (*Result, error) {
		return Text("nothing was asked"), nil
	})
	add("greet", "greets", func(_ context.Context, _ Call, in fixtureInput) (*Result, error) {
		return Text("Hello, %s!", in.Name), nil
	})
	s.fixtureResources()
	s.fixturePrompts()
	s.sdkFixtures()
	s.taskFixtures()
}

// pause waits, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Server) fixtureResources() {
	fixed := func(uri, mime string, data []byte) {
		name := strings.TrimPrefix(uri, "test://")
		s.AddResource(Resource{
			Template: uri, Name: name, MIME: mime,
			List: func(_ context.Context, session *Session) ([]Entry, error) {
				return []Entry{{URI: uri, Name: name, MIME: mime, Description: "of the suite"}}, nil
			},
			Read: func(context.Context, *Session, string) ([]byte, string, error) { return data, mime, nil },
		})
	}
	fixed("test://static-text", "text/plain", []byte("This is the content of the static text resource."))
	fixed("test://static-binary", "image/png", bits(fixturePNG))
	fixed("test://watched-resource", "text/plain", []byte("watched"))
	s.AddResource(Resource{
		Template: "test://template/{id}/data", Name: "template", MIME: "application/json",
		Read: func(_ context.Context, _ *Session, uri string) ([]byte, string, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(uri, "test://template/"), "/data")
			text, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
			return text, "", err
		},
	})
}

func (s *Server) fixturePrompts() {
	says := func(contents ...Content) []Message {
		var out []Message
		for _, c := range contents {
			out = append(out, Message{Content: c})
		}
		return out
	}
	s.AddPrompt(Prompt{Name: "test_simple_prompt", Title: "Simple", Description: "has no arguments"},
		func(context.Context, *Session, map[string]string) ([]Message, error) {
			return says(Content{Text: "This is a simple prompt for testing."}), nil
		})
	s.AddPrompt(
		Prompt{Name: "test_prompt_with_arguments", Description: "has arguments", Arguments: []Argument{
			{Name: "arg1", Description: "the first", Required: true}, {Name: "arg2", Description: "the second", Required: true},
		}},
		func(_ context.Context, _ *Session, args map[string]string) ([]Message, error) {
			return says(Content{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])}), nil
		})
	s.AddPrompt(Prompt{Name: "test_prompt_with_image", Description: "holds a picture"},
		func(context.Context, *Session, map[string]string) ([]Message, error) {
			return says(Content{Data: bits(fixturePNG), MIME: "image/png"}, Content{Text: "Look at the picture above."}), nil
		})
	s.adapter.sdk.AddPrompt(
		&sdk.Prompt{Name: "test_prompt_with_embedded_resource", Description: "holds a resource", Arguments: []*sdk.PromptArgument{
			{Name: "resourceUri", Description: "which", Required: true},
		}},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
					URI: req.Params.Arguments["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing.",
				}}},
				{Role: "user", Content: &sdk.TextContent{Text: "Read the resource above."}},
			}}, nil
		})
	s.adapter.sdk.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "asks something first"},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if said := accepted(req.Params.InputResponses, "user_context"); said != nil {
				return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
					{Role: "user", Content: &sdk.TextContent{Text: fmt.Sprint("Context: ", said["context"])}},
				}}, nil
			}
			return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": form1("What is the subject?", "context", "string")}}, nil
		})
}

// form1 asks for one value.
func form1(message, name, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name},
	}}
}

// accepted is what a person answered, or nil.
func accepted(all sdk.InputResponseMap, key string) map[string]any {
	said, ok := all[key].(*sdk.ElicitResult)
	if !ok || said == nil || said.Action != "accept" {
		return nil
	}
	return said.Content
}
