package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"belljar.dev/policies"
)

// DoctorEgress lets out what live questions to the engines need: their hosts by
// https, and the addresses that the operator gives.
func DoctorEgress(engines []*Engine, keys Keys) *policies.Egress {
	out := &policies.Egress{Limits: policies.EgressLimits{
		Conns: policies.DefaultConns, Rate: policies.DefaultConnRate, Bytes: 64 << 20,
		Idle: policies.DefaultConnIdle, Life: policies.DefaultConnLife,
	}}
	for _, e := range engines {
		for _, h := range e.Hosts {
			out.Allow = append(out.Allow, policies.EgressRule{Host: h, Ports: []uint16{443}})
		}
		if u, err := url.Parse(keys[e.NeedsURL]); e.NeedsURL != "" && err == nil && u.Hostname() != "" {
			out.Allow = append(out.Allow, policies.EgressRule{Host: u.Hostname(), Ports: []uint16{80, 443}})
		}
	}
	return out
}

// doctorQuery is what a live question asks: something that every engine of its
// role knows, and that says nothing about who asks.
var doctorQuery = map[Role]string{RoleCode: "yaml", RoleAcademic: "graph", RoleQA: "parse yaml", RoleDiscussion: "linux"}

// ExamineLive asks an engine one harmless query through client, which has to be
// that of an egress door. The error of a request is an outcome, not an error.
func (e *Engine) ExamineLive(ctx context.Context, client *http.Client, keys Keys) Examined {
	r := Examined{Recorded: Recorded{Engine: e.Name, File: "live", Organic: -1, Outcome: OK.String()}, Known: true}
	text := doctorQuery[e.Role]
	if text == "" {
		text = "free software"
	}
	x, err := e.Exchange(Query{Text: text}, keys)
	if err != nil {
		r.Outcome = "" // nothing is wrong with an engine that is not set up
		r.Parsed = Parsed{Outcome: None, Detail: err.Error()}
		return r
	}
	for {
		req, more := x.Next()
		if !more {
			break
		}
		resp, err := e.sendLive(ctx, client, keys, req)
		if err != nil {
			r.Parsed = Parsed{Outcome: HTTPError, Detail: reason(err)}
			if errors.Is(err, context.DeadlineExceeded) {
				r.Parsed.Outcome = Timeout
			}
			r.Wrong = r.differs()
			return r
		}
		x.Answer(resp)
	}
	r.Parsed = x.Parsed()
	r.Wrong = r.differs()
	return r
}

// reason is an error without the address in it, which has the query.
func reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}

// sendLive makes one request, and follows redirects inside the engine's hosts.
func (e *Engine) sendLive(ctx context.Context, client *http.Client, keys Keys, r Request) (Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, fmt.Errorf("make the request: %w", err)
	}
	req.Header = r.Header
	c := *client
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > 4 || !e.Allows(req.URL.Hostname(), keys) || req.URL.Scheme != via[0].URL.Scheme {
			return http.ErrUseLastResponse
		}
		return nil
	}
	resp, err := c.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	var b strings.Builder
	n, err := io.CopyN(&b, resp.Body, MaxBody+1)
	if err != nil && !errors.Is(err, io.EOF) {
		return Response{}, err
	}
	return Response{
		Status: resp.StatusCode, Header: resp.Header, Body: []byte(b.String()[:min(n, MaxBody)]),
		FinalURL: resp.Request.URL.String(), Truncated: n > MaxBody,
	}, nil
}
