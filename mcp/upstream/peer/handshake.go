package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	discoverMethod   = "server/discover"
	initializeMethod = "initialize"
)

// sameForAll contains HTTP statuses that do not depend on the era: initialize would get the
// same status.
var sameForAll = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// greet finds out the era of a server and agrees with it on a revision.
//
// A modern server answers server/discover, or refuses its revision with an error that only
// modern servers return. Any other answer means a legacy server, and so does silence (MCP
// 2026-07-28, "Backward Compatibility"). A silent server may just start slowly, so
// initialize is then sent while server/discover stays open, and the first result decides.
func greet(ctx context.Context, c *Conn) (*Info, error) {
	var probe *call
	if c.cfg.Era != Legacy {
		var info *Info
		var err error
		if info, probe, err = discover(ctx, c); info != nil || err != nil {
			return info, err
		}
	}
	info, err := initialize(ctx, c, probe)
	if err != nil && probe == nil && c.way.fallback(ctx, err) {
		info, err = initialize(ctx, c, nil)
	}
	return info, err
}

// discover sends server/discover. It returns the call if the server is silent, and three
// nil values if the server belongs to the legacy era.
func discover(ctx context.Context, c *Conn) (*Info, *call, error) {
	cl, err := open(ctx, c, discoverMethod, nil, "supportedVersions")
	if err != nil {
		return nil, nil, err
	}
	var patience <-chan time.Time
	if c.cfg.Era == Auto {
		wait := time.NewTimer(c.cfg.Limits.Probe)
		defer wait.Stop()
		patience = wait.C
	}
	select {
	case <-cl.ended:
	case <-patience:
		return nil, cl, nil
	case <-ctx.Done():
		c.abandon(ctx, cl, "the caller gave up")
		return nil, nil, fmt.Errorf("%s: %w", discoverMethod, context.Cause(ctx))
	}
	if c.Err() != nil && c.cfg.Era == Auto {
		return nil, nil, fmt.Errorf("%w: %w", ErrProbe, c.Err())
	}
	info, err := discovered(cl)
	if info != nil || err != nil && c.cfg.Era == Modern {
		return info, nil, err
	}
	if err, ok := errors.AsType[*fatalError](err); ok {
		return nil, nil, err.error
	}
	return nil, nil, nil
}

// fatalError is an error after which initialize must not be tried.
type fatalError struct{ error }

// Unwrap returns the wrapped error.
func (e *fatalError) Unwrap() error { return e.error }

// discovered reads the answer to server/discover.
func discovered(cl *call) (*Info, error) {
	if e, ok := errors.AsType[*Error](cl.err); ok && e.isModern() {
		supported := texts(wire.Member(objectOf(e.Data), "supported"))
		if e.Code == codeUnsupported && speaksLegacy(supported) {
			return nil, e
		}
		return nil, &fatalError{fmt.Errorf("the server refuses revision %s: %w%s", wire.ModernRevision, e, offers(supported))}
	}
	if s, ok := errors.AsType[*StatusError](cl.err); ok && slices.Contains(sameForAll, s.Status) {
		return nil, &fatalError{s} // initialize would get the same status
	}
	if cl.err != nil {
		return nil, cl.err
	}
	supported := texts(wire.Member(cl.result, "supportedVersions"))
	if !slices.Contains(supported, wire.ModernRevision) {
		err := fmt.Errorf("the server does not support revision %s%s", wire.ModernRevision, offers(supported))
		if supported != nil && !speaksLegacy(supported) {
			return nil, &fatalError{err}
		}
		return nil, err
	}
	info := newInfo(cl.result, wire.Modern, wire.ModernRevision)
	info.Server = objectOf(wire.Member(wire.Member(cl.result, "_meta"), wire.ServerKey))
	return info, nil
}

// initialize makes the handshake of the legacy era. probe is the call of server/discover if
// it is still open; if its result arrives first, it decides.
func initialize(ctx context.Context, c *Conn, probe *call) (*Info, error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`,
		wire.LegacyRevisions[0], c.cfg.Capabilities, c.cfg.Client)
	cl, err := open(ctx, c, initializeMethod, params, "protocolVersion")
	if err != nil {
		return nil, err
	}
	var refused error
	answer, probed := cl.ended, (<-chan struct{})(nil)
	if probe != nil {
		probed = probe.ended
	}
	for answer != nil || probed != nil {
		select {
		case <-answer:
			answer = nil
			info, err := initialized(cl)
			if err == nil {
				if probe != nil {
					c.forget(probe)
				}
				return info, nil
			}
			refused = err
		case <-probed:
			probed = nil
			if info, err := discovered(probe); err == nil {
				c.forget(cl)
				return info, nil
			}
		case <-ctx.Done():
			c.forget(cl)
			if refused != nil {
				return nil, refused
			}
			return nil, fmt.Errorf("%s: the server does not answer: %w", initializeMethod, context.Cause(ctx))
		}
	}
	return nil, refused
}

// initialized reads the answer to initialize.
func initialized(cl *call) (*Info, error) {
	if cl.err != nil {
		return nil, fmt.Errorf("%s: %w", initializeMethod, cl.err)
	}
	revision := wire.Text(wire.Member(cl.result, "protocolVersion"))
	if !slices.Contains(wire.LegacyRevisions, revision) {
		return nil, fmt.Errorf("%s: the server chose revision %q; this client supports %s",
			initializeMethod, excerpt([]byte(revision), mostShown), strings.Join(wire.LegacyRevisions, ", "))
	}
	info := newInfo(cl.result, wire.Legacy, revision)
	info.Server = objectOf(wire.Member(cl.result, "serverInfo"))
	return info, nil
}

// open sends a request of the handshake. proof is a member that only a result of this
// method has.
func open(ctx context.Context, c *Conn, method string, params []byte, proof string) (*call, error) {
	r, err := newRequest(method, params, 0)
	if err != nil {
		return nil, err
	}
	r.bare = method == initializeMethod
	cl := newCall(r, CallOptions{}, c.cfg.Limits.Timeout)
	cl.proof = proof
	return cl, c.send(ctx, cl, r, nil)
}

func newInfo(result json.RawMessage, era wire.Era, revision string) *Info {
	capabilities := objectOf(wire.Member(result, "capabilities"))
	if capabilities == nil {
		capabilities = json.RawMessage(`{}`)
	}
	return &Info{
		Era: era, Revision: revision, Capabilities: capabilities,
		Instructions: wire.Text(wire.Member(result, "instructions")), Result: result,
	}
}

// objectOf returns a value if it is an object, and otherwise nil.
func objectOf(value []byte) json.RawMessage {
	if !wire.IsObject(value) {
		return nil
	}
	return value
}

// texts returns the strings of an array, at most 64.
func texts(array []byte) (all []string) {
	if len(array) == 0 || array[0] != '[' {
		return nil
	}
	wire.Elements(array, func(value []byte) bool {
		if text := wire.Text(value); text != "" {
			all = append(all, text)
		}
		return len(all) < 64
	})
	return all
}

func speaksLegacy(revisions []string) bool {
	return slices.ContainsFunc(revisions, func(r string) bool { return slices.Contains(wire.LegacyRevisions, r) })
}

// offers returns a text for an error that lists the revisions of a server.
func offers(revisions []string) string {
	if len(revisions) == 0 {
		return ""
	}
	return "; it supports " + excerpt([]byte(strings.Join(revisions, ", ")), mostShown)
}
