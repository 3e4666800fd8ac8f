package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// eraOf is the era a request belongs to.
func eraOf(req sdk.Request) wire.Era {
	if r, ok := req.(interface{ ProtocolVersion() string }); ok && r.ProtocolVersion() >= wire.ModernRevision {
		return wire.Modern
	}
	return wire.Legacy
}

// sessionKey is where the context of a request holds its Session.
type sessionKey struct{}

// sessionOf is the Session of a request.
func (a *adapter) sessionOf(ctx context.Context) (*Session, error) {
	if session, ok := ctx.Value(sessionKey{}).(*Session); ok {
		return session, nil
	}
	return nil, wire.Errorf(wire.InvalidRequest, "invalid request: the session does not exist yet; send initialize first")
}
