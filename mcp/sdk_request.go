package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// eraOf returns the era of a request.
func eraOf(req sdk.Request) wire.Era {
	if r, ok := req.(interface{ ProtocolVersion() string }); ok && r.ProtocolVersion() >= wire.ModernRevision {
		return wire.Modern
	}
	return wire.Legacy
}

// sessionKey is the context key for the Session of a request.
type sessionKey struct{}

// tenantOf returns the tenant of a request.
func (a *adapter) tenantOf(ctx context.Context) string {
	if session, err := a.sessionOf(ctx); err == nil {
		return session.tenant
	}
	return a.server.cfg.callerOf(ctx).Tenant
}

// hidesFrom reports whether a tool is hidden from a caller without a session.
func (a *adapter) hidesFrom(caller Identity, t *tool) bool {
	return missing(a.server.cfg.Auth, caller, t.info.Name, "") != nil || a.server.tools.hidesFrom(caller.Tenant, t)
}

// sessionOf returns the Session of a request.
func (a *adapter) sessionOf(ctx context.Context) (*Session, error) {
	if session, ok := ctx.Value(sessionKey{}).(*Session); ok {
		return session, nil
	}
	return nil, wire.Errorf(wire.InvalidRequest, "invalid request: the session does not exist yet; send initialize first")
}
