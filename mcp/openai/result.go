package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// Output is what a model reads after a call: whether it succeeded, and a text.
type Output struct {
	Success bool   `json:"success"`
	Output  string `json:"output"`
}

// content is one part of a tool's result.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Resource *struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource,omitempty"`
}

// result is the result of tools/call.
type result struct {
	Content    []content       `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

// FromResult converts the result of a tools/call to the text that a model reads:
// the texts, one per line, and for other content a line in brackets that names it.
// A result without content becomes its structured part.
func FromResult(text []byte) (Output, error) {
	if len(text) > 2*textMost {
		return Output{}, fmt.Errorf("read a result: got %d bytes, want at most %d", len(text), 2*textMost)
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return Output{}, fmt.Errorf("read a result: %w", err)
	}
	parts := make([]string, 0, len(r.Content))
	for _, c := range r.Content {
		parts = append(parts, c.words())
	}
	if len(parts) == 0 && r.Structured != nil {
		parts = append(parts, string(r.Structured))
	}
	return Output{Success: !r.IsError, Output: strings.Join(parts, "\n")}, nil
}

// words returns the part as a text.
func (c content) words() string {
	switch {
	case c.Type == "text":
		return c.Text
	case c.Type == "resource_link":
		return fmt.Sprintf("[resource %s %s]", c.URI, c.Name)
	case c.Type == "resource" && c.Resource != nil && c.Resource.Blob == "":
		return c.Resource.Text
	case c.Type == "resource" && c.Resource != nil:
		return fmt.Sprintf("[resource %s %s, %d bytes]", c.Resource.URI, c.Resource.MIMEType, base64.StdEncoding.DecodedLen(len(c.Resource.Blob)))
	}
	return fmt.Sprintf("[%s %s, %d bytes]", c.Type, c.MIMEType, base64.StdEncoding.DecodedLen(len(c.Data)))
}

// Result returns the output as the result of a tools/call.
func (o Output) Result() (json.RawMessage, error) {
	return json.Marshal(result{Content: []content{{Type: "text", Text: o.Output}}, IsError: !o.Success})
}
