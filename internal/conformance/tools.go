package conformance

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// tool is a tool of the suite that only the go-sdk can express.
type tool struct {
	name, description, schema string
	run                       sdk.ToolHandler
}

// addTools registers tools that the suite requires and that do what belljar's own tools
// never do: sound, embedded resources, logging, sampling, roots, and questions of all
// kinds.
func addTools(s *mcp.Server, server *sdk.Server) {
	for _, all := range [][]tool{contentTools(), clientTools(s), askingTools()} {
		for _, f := range all {
			f.addTo(server)
		}
	}
}

func (f tool) addTo(server *sdk.Server) {
	server.AddTool(&sdk.Tool{Name: f.name, Description: f.description, InputSchema: json.RawMessage(cmp.Or(f.schema, anyObject))}, f.run)
}

func embedded(uri, text string) *sdk.EmbeddedResource {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: text}}
}

// always returns a handler that gives the same answer to every call.
func always(contents ...sdk.Content) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: contents}, nil
	}
}

func contentTools() []tool {
	return []tool{
		{"test_audio_content", "returns a sound", "", always(&sdk.AudioContent{Data: bits(silenceWAV), MIMEType: "audio/wav"})},
		{"test_embedded_resource", "returns a resource", "", always(embedded("test://embedded-resource", "This is an embedded resource content."))},
		{"test_multiple_content_types", "returns a text, a picture and a resource", "", always(
			&sdk.TextContent{Text: "Multiple content types test:"},
			&sdk.ImageContent{Data: bits(dotPNG), MIMEType: "image/png"},
			embedded("test://mixed-content-resource", `{"test":"data","value":123}`))},
		{
			"json_schema_2020_12_tool", "has a schema with many keywords of JSON Schema 2020-12", `{
			"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
			"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
			"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
				"contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}},
			"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
			"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
			"then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false}`,
			always(&sdk.TextContent{Text: "called"}),
		},
		{
			"test_x_mcp_header", "has an argument that is also sent in a header", `{"type": "object", "properties": {
			"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": "integer"}}}`,
			always(&sdk.TextContent{Text: "called"}),
		},
		{
			"test_reconnection", "ends its stream, so that the client comes back for the answer", "",
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				if req.Extra != nil && req.Extra.CloseSSEStream != nil {
					req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
				}
				if err := pause.For(ctx, 100*time.Millisecond); err != nil {
					return nil, err
				}
				return sdkText("the client came back"), nil
			},
		},
	}
}

// clientTools returns tools that use the client's capabilities, and tools that change
// lists.
func clientTools(s *mcp.Server) []tool {
	const suffix = " (changed)"
	logs := func(pauses time.Duration, lines ...string) sdk.ToolHandler {
		return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for _, line := range lines {
				if err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: line}); err != nil { //nolint:staticcheck // the suite also tests deprecated methods
					return nil, err
				}
				if err := pause.For(ctx, pauses); err != nil {
					return nil, err
				}
			}
			return sdkText("logged"), nil
		}
	}
	elicits := func(form *sdk.ElicitParams) sdk.ToolHandler {
		return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			res, err := req.Session.Elicit(ctx, form)
			if err != nil {
				return nil, err
			}
			return sdkText("Elicitation result: action=%s, content=%v", res.Action, res.Content), nil
		}
	}
	return []tool{
		{"test_tool_with_logging", "logs three lines to the client", "", logs(50*time.Millisecond, "Tool execution started", "Tool processing data", "Tool execution completed")},
		{"test_logging_tool", "logs a line, if the client has set a level for logs", "", logs(0, "test_logging_tool executed")},
		{"test_sampling", "asks the client's model", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, sample},
		{
			"test_elicitation", "asks the user of the client", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				var in struct {
					Message string `json:"message"`
				}
				if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
					return nil, wire.Errorf(wire.InvalidParams, "%v", err)
				}
				return elicits(form1(in.Message, "username", "string"))(ctx, req)
			},
		},
		{"test_elicitation_sep1034_defaults", "asks with defaults", "", elicits(objectForm("Defaults", map[string]any{
			"name":     map[string]any{"type": "string", "default": "John Doe"},
			"age":      map[string]any{"type": "integer", "default": 30},
			"score":    map[string]any{"type": "number", "default": 95.5},
			"status":   map[string]any{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
			"verified": map[string]any{"type": "boolean", "default": true},
		}))},
		{"test_elicitation_sep1330_enums", "asks for choices", "", elicits(objectForm("Choices", choices()))},
		{
			"test_missing_capability", "needs a client with sampling", "",
			func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				if c := req.ClientCapabilities(); c != nil && c.Sampling != nil { //nolint:staticcheck // the suite also tests deprecated methods
					return sdkText("the client samples"), nil
				}
				return nil, &jsonrpc.Error{
					Code: sdk.CodeMissingRequiredClientCapabilities, Message: "the client does not sample",
					Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
				}
			},
		},
		{
			"test_trigger_tool_change", "changes the list of tools", "",
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				changed := s.Tools()[0]
				description, longer := strings.CutSuffix(changed.Description, suffix)
				if !longer {
					description += suffix
				}
				s.Describe(changed.Name, description)
				return sdkText("changed"), nil
			},
		},
		{
			"test_trigger_prompt_change", "changes the list of prompts", "",
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				s.PromptsChanged()
				return sdkText("changed"), nil
			},
		},
	}
}

func objectForm(message string, properties map[string]any) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{"type": "object", "properties": properties}}
}

func choices() map[string]any {
	names := []string{"option1", "option2", "option3"}
	titled := []map[string]any{
		{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"},
	}
	return map[string]any{
		"untitledSingle": map[string]any{"type": "string", "enum": names},
		"titledSingle":   map[string]any{"type": "string", "oneOf": titled},
		"legacyEnum":     map[string]any{"type": "string", "enum": []string{"opt1", "opt2", "opt3"}, "enumNames": []string{"Option One", "Option Two", "Option Three"}},
		"untitledMulti":  map[string]any{"type": "array", "minItems": 1, "maxItems": 3, "items": map[string]any{"type": "string", "enum": names}},
		"titledMulti":    map[string]any{"type": "array", "minItems": 1, "maxItems": 3, "items": map[string]any{"anyOf": titled}},
	}
}

func sample(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, wire.Errorf(wire.InvalidParams, "%v", err)
	}
	res, err := req.Session.CreateMessage(ctx, sampling(in.Prompt)) //nolint:staticcheck // the suite also tests deprecated methods
	if err != nil {
		return nil, err
	}
	text, _ := res.Content.(*sdk.TextContent)
	if text == nil {
		return sdkText("LLM response: not a text"), nil
	}
	return sdkText("LLM response: %s", text.Text), nil
}

func sampling(prompt string) *sdk.CreateMessageParams { //nolint:staticcheck // the suite also tests deprecated methods
	return &sdk.CreateMessageParams{ //nolint:staticcheck // the suite also tests deprecated methods
		MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: prompt}}}, //nolint:staticcheck // the suite also tests deprecated methods
	}
}

// askingTools returns tools that ask a question in their answer, and that the client calls
// again with the reply.
func askingTools() []tool {
	name := form1("What is your name?", "name", "string")
	confirm := form1("Do you confirm?", "ok", "boolean")
	once := func(state string, ask sdk.InputRequestMap, done func(sdk.InputResponseMap) (string, bool)) sdk.ToolHandler {
		return func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			got := req.Params.RequestState
			if got != "" && got != sealed(state) {
				return nil, wire.Errorf(wire.InvalidParams, "requestState: it was changed")
			}
			if text, ok := done(req.Params.InputResponses); ok && got == sealed(state) {
				return sdkText("%s", text), nil
			}
			return &sdk.CallToolResult{InputRequests: ask, RequestState: sealed(state)}, nil
		}
	}
	greeted := func(r sdk.InputResponseMap) (string, bool) {
		who, _ := accepted(r, "user_name")["name"].(string)
		return "Hello, " + who + "!", who != ""
	}
	confirmed := func(r sdk.InputResponseMap) (string, bool) {
		return "state-ok: confirmed", accepted(r, "confirm") != nil
	}
	return []tool{
		{"test_input_required_result_elicitation", "asks for a name", "", once("", sdk.InputRequestMap{"user_name": name}, greeted)},
		{"test_input_required_result_sampling", "asks the client's model", "", once("", sdk.InputRequestMap{"capital_question": sampling("What is the capital of France?")}, func(r sdk.InputResponseMap) (string, bool) {
			text, ok := sampledText(r, "capital_question")
			return "Sampling response: " + text, ok
		})},
		{"test_input_required_result_list_roots", "asks for the client's roots", "", once("", sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}, func(r sdk.InputResponseMap) (string, bool) { //nolint:staticcheck // the suite also tests deprecated methods
			n, ok := rootCount(r)
			return fmt.Sprintf("%d roots", n), ok
		})},
		{"test_input_required_result_request_state", "asks, and gives a state that the client sends back", "", once("state", sdk.InputRequestMap{"confirm": confirm}, confirmed)},
		{"test_input_required_result_tampered_state", "asks, and refuses a state that was changed", "", once("tampered", sdk.InputRequestMap{"confirm": confirm}, confirmed)},
		{"test_input_required_result_multiple_inputs", "asks three things at once", "", once("inputs", sdk.InputRequestMap{
			"user_name": name, "greeting": sampling("Greet"), "client_roots": &sdk.ListRootsParams{}, //nolint:staticcheck // the suite also tests deprecated methods
		}, func(r sdk.InputResponseMap) (string, bool) {
			hello, named := greeted(r)
			text, said := sampledText(r, "greeting")
			n, rooted := rootCount(r)
			return fmt.Sprintf("%s %s %d roots", hello, text, n), named && said && rooted
		})},
		{"test_input_required_result_multi_round", "asks twice", "", twice},
		{"test_input_required_result_capabilities", "asks what the client can answer", "", askWhatItCan},
	}
}

// sealed returns a state in the form that the client sends back: the text, and a proof that
// it was made here.
func sealed(state string) string {
	if state == "" {
		return ""
	}
	h := hmac.New(sha256.New, []byte("of the suite"))
	h.Write([]byte(state))
	return state + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func sampledText(all sdk.InputResponseMap, key string) (string, bool) {
	res, ok := all[key].(*sdk.CreateMessageWithToolsResult) //nolint:staticcheck // the suite also tests deprecated methods
	if !ok || res == nil {
		return "", false
	}
	for _, c := range res.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			return text.Text, true
		}
	}
	return "", true
}

func rootCount(all sdk.InputResponseMap) (int, bool) {
	res, ok := all["client_roots"].(*sdk.ListRootsResult) //nolint:staticcheck // the suite also tests deprecated methods
	if !ok || res == nil {
		return 0, false
	}
	return len(res.Roots), true
}

// twice asks for a name and then for a colour. The name is kept in the state.
func twice(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	state, said := req.Params.RequestState, req.Params.InputResponses
	who, second := strings.CutPrefix(state, "2:")
	switch {
	case second:
		return sdkText("%s likes %v", who, accepted(said, "step2")["color"]), nil
	case state == "1":
		return &sdk.CallToolResult{
			InputRequests: sdk.InputRequestMap{"step2": form1("What is your favourite colour?", "color", "string")},
			RequestState:  "2:" + fmt.Sprint(accepted(said, "step1")["name"]),
		}, nil
	}
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"step1": form1("What is your name?", "name", "string")}, RequestState: "1"}, nil
}

// askWhatItCan asks only the questions that the client has declared to support.
func askWhatItCan(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return sdkText("answered"), nil
	}
	ask := sdk.InputRequestMap{}
	if c := req.ClientCapabilities(); c != nil {
		if c.Elicitation != nil {
			ask["user_name"] = form1("What is your name?", "name", "string")
		}
		if c.Sampling != nil { //nolint:staticcheck // the suite also tests deprecated methods
			ask["greeting"] = sampling("Greet")
		}
		if c.RootsV2 != nil { //nolint:staticcheck // the suite also tests deprecated methods
			ask["client_roots"] = &sdk.ListRootsParams{} //nolint:staticcheck // the suite also tests deprecated methods
		}
	}
	if len(ask) == 0 {
		return sdkText("the client can answer nothing"), nil
	}
	return &sdk.CallToolResult{InputRequests: ask}, nil
}
