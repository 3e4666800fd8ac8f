package browser

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// Scripts for the package act, which drives a Seat. They run in a world of their own.
var (
	//go:embed js/look.js
	LookScript string
	//go:embed js/touch.js
	TouchScript string
)

// Seat starts a Chrome for one session, with the walls and the door of the grant. downloads
// is the size in bytes of policies.BrowserDownloads in its box; a write beyond it fails.
// The caller must Close the Seat; the end of the Pool also closes it. Errors are of type
// *Error.
func (p *Pool) Seat(ctx context.Context, g policies.Grant, downloads int64) (*Seat, error) {
	if !p.enter() {
		return nil, errClosed()
	}
	defer p.wg.Done()
	ctx, cancel := p.alive(ctx)
	defer cancel(nil)
	if g.Network() == policies.NetworkNone {
		return nil, &Error{Kind: KindForbidden, Message: fmt.Sprintf("profile %q has no network, so no page can be opened; ask for a profile that has a network", g.Profile())}
	}
	for {
		grant, err := p.boxGrant(g, policies.BrowserBox{Downloads: downloads})
		if err != nil {
			return nil, err
		}
		s, err := newSeat(ctx, p, grant)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil || !p.worthAgain(err, grant, g) || KindOf(err) != KindAbsent {
			return nil, p.final(ctx, err)
		}
	}
}

// newSeat starts a Seat in a box. The error says why it cannot.
func newSeat(ctx context.Context, p *Pool, g policies.Grant) (*Seat, error) {
	program, err := p.suits(g)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.names++
	id := "seat-" + strconv.Itoa(p.names)
	p.mu.Unlock()
	s, err := startSeat(ctx, p, id, program, g)
	if err != nil && ctx.Err() != nil { // nobody has waited until it started
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		return nil, startError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.wg.Go(s.close) // enter has counted the call, so Close still waits
		return nil, errClosed()
	}
	p.seats[s] = s.close
	return s, nil
}

func startSeat(ctx context.Context, p *Pool, id, program string, g policies.Grant) (_ *Seat, err error) {
	box, err := p.cfg.Supervisor.Open(ctx, id, g)
	if err != nil {
		return nil, err
	}
	s := &Seat{box: box, forget: func(s *Seat) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.seats, s)
	}, gone: make(chan struct{})}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	toChrome, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer toChrome.Close()
	s.To = to
	from, fromChrome, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer fromChrome.Close()
	s.from, s.From = from, bufio.NewReaderSize(from, 64<<10)
	degraded := !g.NestsNamespaces()
	s.job, err = box.Start(ctx, sandbox.Cmd{
		Grant: g, Argv: append([]string{program}, seatFlags(degraded, box.Pin())...), Dir: "/tmp", Background: true,
		Timeout: g.Limits().Background, Files: []*os.File{toChrome, fromChrome},
		Env: map[string]string{"LANG": "en_US.UTF-8", "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
	})
	if err != nil {
		return nil, err
	}
	toChrome.Close()
	fromChrome.Close()
	if err := s.greet(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err // Chrome still runs, so it has no last words
		}
		return nil, startFault(err, lastWords(s.job))
	}
	return s, nil
}

// seatFlags returns the flags of a Chrome that a session drives: sites are kept in separate
// processes, so that a frame of another site has a session of its own.
func seatFlags(degraded bool, pin string) []string {
	f := flags(degraded, pin)
	return slices.Insert(f, len(f)-1, "--site-per-process", "--deny-permission-prompts")
}

// greet waits until Chrome reports its version. No other command is in progress yet.
func (s *Seat) greet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.from.Close() })
	defer stop()
	if err := s.from.SetReadDeadline(time.Now().Add(startPatience)); err != nil {
		return fmt.Errorf("start Chrome: %w", err)
	}
	if err := s.To.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return fmt.Errorf("start Chrome: %w", err)
	}
	if _, err := s.To.WriteString(`{"id":1,"method":"Browser.getVersion"}` + "\x00"); err != nil {
		return fmt.Errorf("start Chrome: %w", err)
	}
	for {
		text, err := readMessage(s.From, maxMessage)
		if err != nil {
			return fmt.Errorf("start Chrome: %w", err)
		}
		var answer struct {
			ID     int64 `json:"id"`
			Result struct {
				Product string `json:"product"`
			} `json:"result"`
		}
		if json.Unmarshal(text, &answer) != nil || answer.ID != 1 {
			continue
		}
		if _, err := tried(answer.Result.Product); err != nil {
			return fmt.Errorf("start Chrome: %w", err)
		}
		s.version = answer.Result.Product
		return s.from.SetReadDeadline(time.Time{})
	}
}
