package fetch

import "time"

// SetClock has a fetcher tell the time by now.
func (f *Fetcher) SetClock(now func() time.Time) { f.cfg.now = now }

var (
	MetaRefresh  = metaRefresh
	ParseRobots  = parseRobots
	RobotsMatch  = robotsMatch
	RefreshAfter = refreshTarget
)

// Allows is what robots rules say to a path.
func (r *robots) Allows(path string) bool { return r.allows(path) }
