package server

import (
	"context"
	"time"

	"belljar.dev/internal/console"
	"belljar.dev/internal/fleet"
)

// openPart makes the part of a worker that the consoles at its fronts show. run does the
// background work of the part; it does nothing if the configuration has no such part.
func openPart(ctx context.Context, s *Server, c *controller) (run func(), err error) {
	if !s.cfg.linked() || !s.cfg.Service.Link.Console {
		return func() {}, nil
	}
	views := consoleViews(s, c)
	// Only the views that consoles at fronts show.
	part, err := console.NewPart(console.Views{Server: views.Server, People: views.People, Runs: views.Runs, AuditDir: views.AuditDir, Upstreams: views.Upstreams})
	if err != nil {
		return nil, err
	}
	s.part = part
	s.ways.open(console.Via)
	return func() { part.Run(ctx) }, nil
}

// runFleetConsole serves the console of a front until ctx ends.
func runFleetConsole(ctx context.Context, s *Server, c *controller) {
	s.Log.Info("people can open the console with `belljar console`", "url", s.console.URL())
	provider := &consoleProvider{server: s}
	defer provider.Close()
	err := s.console.Serve(ctx, console.Views{
		Provider: provider,

		Server: &consoleServer{s, c, &knownPeople{server: s}, time.Now()},
		Fleet:  &consoleFleet{fleet.AskerOf(s.fleet), s.fleet},
		Policy: &consolePolicy{c.policy, s.gate},
	})
	if err != nil {
		s.Log.Error("the console is no longer served", "err", err)
	}
}

// consoleFleet answers the requests of a front's console about its workers.
type consoleFleet struct {
	fleet.Asker
	front *fleet.Front
}

// Workers returns the workers of the front.
func (v *consoleFleet) Workers() []console.Worker {
	all := []console.Worker{}
	for _, w := range v.front.Info().Workers {
		one := console.Worker{Name: w.Name, Version: w.Version, Since: w.Since, Places: w.Places, Running: w.Running, State: "ready"}
		switch {
		case w.Drains:
			one.State = "draining"
		case w.Late:
			one.State = "late"
		}
		all = append(all, one)
	}
	return all
}
