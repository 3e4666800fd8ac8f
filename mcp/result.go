package mcp

import (
	"cmp"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// sdkResult converts a Result for the go-sdk. It fails if Structured cannot be marshalled
// or the result is above the limit: over HTTP the size is not checked later.
func sdkResult(r *Result, limit int) (*sdk.CallToolResult, error) {
	if r.needs != nil {
		requests, err := r.needs.requests()
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{InputRequests: requests, RequestState: r.needs.state}, nil
	}
	out := &sdk.CallToolResult{Meta: r.sdkMeta(), IsError: r.IsError, Content: make([]sdk.Content, 0, len(r.Content))}
	size := 0
	for _, value := range r.Meta {
		size += len(value)
	}
	for _, c := range r.Content {
		size += c.size()
		out.Content = append(out.Content, c.sdk())
	}
	if r.Structured != nil {
		raw, err := json.Marshal(r.Structured)
		if err != nil {
			return nil, wire.Errorf(wire.InternalError, "marshal the structured result: %v", err)
		}
		out.StructuredContent = json.RawMessage(raw)
		size += len(raw)
	}
	if size > limit {
		return nil, wire.TooLarge(size, limit)
	}
	return out, nil
}

// sdkMeta returns the _meta of an upstream's result for the go-sdk; nil for another result.
func (r *Result) sdkMeta() sdk.Meta {
	if r.Upstream == "" {
		return nil
	}
	meta := sdk.Meta{UpstreamKey: r.Upstream}
	for key, value := range r.Meta {
		meta[key] = value
	}
	return meta
}

// rawContent is a block that the go-sdk writes unchanged. It embeds a content type of the
// sdk, since no other type can implement the sdk's interface.
type rawContent struct {
	*sdk.TextContent
	raw json.RawMessage
}

// MarshalJSON returns the block.
func (c rawContent) MarshalJSON() ([]byte, error) { return c.raw, nil }

// sdk converts the content for the go-sdk.
func (c Content) sdk() sdk.Content {
	switch {
	case c.Raw != nil:
		return rawContent{&sdk.TextContent{Text: c.Text}, c.Raw}
	case c.Data != nil:
		return &sdk.ImageContent{Data: c.Data, MIMEType: c.MIME}
	case c.URI != "":
		return &sdk.ResourceLink{URI: c.URI, Name: c.linkName(), MIMEType: c.MIME}
	}
	return &sdk.TextContent{Text: c.Text}
}

// size is the approximate size of the content on the wire, in bytes.
func (c Content) size() int {
	if c.Raw != nil {
		return len(c.Raw)
	}
	return len(c.Text) + len(c.URI) + len(c.Data)/3*4
}

// linkName is the name of a resource link, which the schema requires.
func (c Content) linkName() string { return cmp.Or(c.Text, c.URI) }
