package toolkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/cache"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/history"
)

// Host is what the box gives the helper.
type Host struct {
	In        io.Reader   // messages from the server
	Events    io.Writer   // messages to the server
	Out       io.Writer   // receives the whole result
	Workspace string      // directory that the server calls [Workspace]
	Git       history.Run // starts git; nil if git cannot be used
	Program   string      // [Identity] of the helper
	Cache     string      // directory of the cache for parsed files; empty for no cache
}

// grace is how long before the deadline the helper stops measuring, so that it can still
// answer.
const grace = 500 * time.Millisecond

// Serve runs one analysis for a server, and returns after it has answered. A fault of the
// request is sent to the server. Serve returns an error if the server cannot be reached.
func Serve(ctx context.Context, h Host) error {
	in := newLines(h.In)
	var ask Request
	if err := in.next(&ask); err != nil {
		return fmt.Errorf("read what to measure: %w", err)
	}
	var mu sync.Mutex
	say := func(e Event) error {
		mu.Lock()
		defer mu.Unlock()
		return send(h.Events, e)
	}
	line, err := measure(ctx, h, ask, in, say)
	if err != nil {
		return say(Event{Fault: err.Error()})
	}
	mu.Lock()
	defer mu.Unlock()
	_, err = h.Events.Write(line)
	return err
}

// measure runs the analysis of the request, and returns the event with the answer.
func measure(ctx context.Context, h Host, ask Request, in *lines, say func(Event) error) ([]byte, error) {
	if ask.Program != h.Program {
		return nil, errors.New(replaced)
	}
	args, err := decode(ask.Tool, ask.Args)
	if err != nil {
		return nil, err
	}
	does, ok := args.(analysis)
	if !ok {
		return nil, fmt.Errorf("%s cannot be run", ask.Tool)
	}
	limit := time.Duration(ask.TimeMS) * time.Millisecond
	if limit <= 0 {
		return nil, errors.New("the time limit leaves no time to begin")
	}
	limit -= min(grace, limit/4)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := &reading{ctx: ctx, workspace: h.Workspace, git: h.Git, moments: moments{deadline: time.Now().Add(limit)}, lacked: make(map[code.Gap]bool)}
	r.shared = &shared{graphs: make(map[graph.Kind]*graph.Graph), pasts: make(map[int]history.History)}
	// if the server no longer reads, the answer fails as well
	r.tell = func(stage string, done, total int) { _ = say(Event{Stage: stage, Done: done, Total: total}) }
	var asking sync.Mutex
	r.ask = func(paths []string) ([]int, error) {
		asking.Lock()
		defer asking.Unlock()
		return judged(paths, in, say)
	}
	if err := r.open(args.project()); err != nil {
		return nil, err
	}
	defer r.root.Close()
	if _, gate := args.(*Gate); !gate && h.Cache != "" { // a gate judges the present files
		r.cache = cache.Open(h.Cache, h.Program)
		defer r.cache.Close() // an error does not matter: a file that is not cached is parsed again
	}
	res, err := does.run(r)
	if found, ok := errors.AsType[*foundAnswer](err); ok {
		_, err := h.Out.Write(found.whole)
		return found.line, err
	}
	if err != nil {
		return nil, err
	}
	said, whole, err := answer(args.format(), res)
	if err != nil {
		return nil, err
	}
	line, err := lineOf(Event{Answer: said})
	if err != nil {
		return nil, err
	}
	r.answer.keep(line, whole)
	_, err = h.Out.Write(whole)
	return line, err
}

// judged asks the server which of the paths the policy denies, and returns their indexes.
func judged(paths []string, in *lines, say func(Event) error) ([]int, error) {
	for from := 0; from < len(paths); from += pathsAtOnce {
		if err := say(Event{Paths: paths[from:min(len(paths), from+pathsAtOnce)]}); err != nil {
			return nil, err
		}
	}
	if err := say(Event{Asked: true}); err != nil {
		return nil, err
	}
	var v Verdict
	if err := in.next(&v); err != nil {
		return nil, fmt.Errorf("read what the policy denies: %w", err)
	}
	return v.LeftOut, nil
}

// answer returns the text of a result and the whole result.
func answer(format string, res result) (a *Answer, whole []byte, err error) {
	structured, err := fitting(res, maxMessage/2)
	if err != nil {
		return nil, nil, err
	}
	whole, own := structured, false
	if d, ok := res.(documented); ok {
		if text, made := d.document(format); made {
			whole, own = text, true
		}
	}
	if !own && format == asSARIF {
		if whole, err = sarif(res); err != nil {
			return nil, nil, err
		}
		own = true
	}
	if len(whole) > maxWhole {
		return nil, nil, fmt.Errorf("the result has %d bytes, more than %d; name a smaller project_path, or patterns", len(whole), maxWhole)
	}
	a = &Answer{Result: structured}
	if g, ok := res.(gated); ok {
		a.Failed = g.failed()
	}
	t := text{most: maxText}
	big, sized := res.(interface{ room() int })
	if sized {
		t.most = big.room()
	}
	switch {
	case sized && format == markdown: // its text is the document with less of the map
	case own, format == asJSON:
		a.Text, a.Document = string(whole), true
		if len(a.Text) > maxDetailed {
			a.Text, a.Whole, a.Document = clip(a.Text, maxDetailed), true, false
		}
		return a, whole, nil
	case format == detailed:
		t.most = maxDetailed
	}
	res.tell(&t, format == detailed)
	a.Text, a.Whole = t.String(), true
	return a, whole, nil
}
