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
	"belljar.dev/sandbox/egress"
	"belljar.dev/search/engine"
)

// DoctorEgress returns an egress that allows what live questions to the engines need: HTTPS
// to the engines' hosts, and the addresses that the operator gives.
func DoctorEgress(engines []*engine.Engine, keys engine.Keys) *policies.Egress {
	out := &policies.Egress{Limits: policies.EgressLimits{
		Conns: policies.DefaultConns, Rate: policies.DefaultConnRate, Bytes: 64 << 20,
		Idle: policies.DefaultConnIdle, Life: policies.DefaultConnLife,
	}}
	for _, e := range engines {
		for _, h := range e.Hosts {
			out.Allow = append(out.Allow, policies.EgressRule{Host: h, Ports: []uint16{443}})
		}
		if u, err := url.Parse(keys[e.NeedsURL]); e.NeedsURL != "" && err == nil && u.Hostname() != "" {
			out.Allow = append(out.Allow, policies.EgressRule{Host: u.Hostname(), Ports: []uint16{portOf(u)}})
		}
	}
	return out
}

// doctorQuery is the text of a live question by role: something that every engine of the
// role finds, and that tells nothing about the person who asks.
var doctorQuery = map[engine.Role]string{engine.RoleCode: "yaml", engine.RoleAcademic: "graph", engine.RoleQA: "parse yaml", engine.RoleDiscussion: "linux"}

// ExamineLive asks an engine one harmless query through client, which must be the client of
// an egress door. An error of a request becomes an outcome.
func ExamineLive(ctx context.Context, client *http.Client, e *engine.Engine, keys engine.Keys) engine.Examined {
	// any number of results is right, so Organic is -1
	want := engine.Recorded{Engine: e.Name, File: "live", Organic: -1, Outcome: engine.OK.String()}
	text := doctorQuery[e.Role]
	if text == "" {
		text = "free software"
	}
	x, err := e.Exchange(engine.Query{Text: text}, keys)
	if err != nil {
		want.Outcome = "" // an engine that is not set up is not a fault
		return want.Check(engine.Parsed{Outcome: engine.None, Detail: err.Error()})
	}
	for {
		req, more := x.Next()
		if !more {
			break
		}
		resp, err := sendLive(ctx, client, e, keys, req)
		if err != nil {
			failed := engine.Parsed{Outcome: engine.HTTPError, Detail: reason(err)}
			if errors.Is(err, context.DeadlineExceeded) {
				failed.Outcome = engine.Timeout
			}
			return want.Check(failed)
		}
		x.Answer(resp)
	}
	return want.Check(x.Parsed())
}

// Examine asks the engine of a name a harmless query, through a door that is opened for this
// query. known is false if no engine has the name. The answer does not count for the health of the engine.
func (f *Fan) Examine(ctx context.Context, name string) (x engine.Examined, known bool, err error) {
	e := f.cfg.Engines().Find(name)
	if e == nil {
		return x, false, nil
	}
	keys := f.cfg.Keys()
	door, err := egress.New(egress.Config{Egress: DoctorEgress([]*engine.Engine{e}, keys), Profile: "search doctor"})
	if err != nil {
		return x, true, err
	}
	x = ExamineLive(ctx, door.Client(), e, keys)
	return x, true, door.Close()
}

// reason returns the text of an error without the address, which contains the query.
func reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}

// sendLive makes one request, and follows redirects between the engine's hosts.
func sendLive(ctx context.Context, client *http.Client, e *engine.Engine, keys engine.Keys, r engine.Request) (engine.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return engine.Response{}, fmt.Errorf("make the request: %w", err)
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
		return engine.Response{}, err
	}
	defer resp.Body.Close()
	var b strings.Builder
	n, err := io.CopyN(&b, resp.Body, engine.MaxBody+1)
	if err != nil && !errors.Is(err, io.EOF) {
		return engine.Response{}, err
	}
	return engine.Response{
		Status: resp.StatusCode, Header: resp.Header, Body: []byte(b.String()[:min(n, engine.MaxBody)]),
		FinalURL: resp.Request.URL.String(), Truncated: n > engine.MaxBody,
	}, nil
}
