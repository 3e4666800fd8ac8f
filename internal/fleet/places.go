package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/order"
)

// PlaceInfo describes a place for people.
type PlaceInfo struct {
	Place  string `json:"place"`
	Worker string `json:"worker,omitempty"` // worker that it belongs to; empty if there is none
	To     string `json:"to,omitempty"`     // worker to which it is moving
	From   string `json:"from,omitempty"`   // worker that it comes from, which may still have its copy
	Move   uint64 `json:"move,omitempty"`   // number of its last move
	State  string `json:"state"`            // state in words, for people
	Said   string `json:"said,omitempty"`   // how its last move ended, if this front made that move
	Moving bool   `json:"moving"`
}

// Places returns all places that the front knows, in order.
func (f *Front) Places() []PlaceInfo {
	all := []PlaceInfo{}
	_, places, frozen := f.roster.info()
	owners := f.cfg.Claims.All()
	for place := range places {
		if _, known := owners[place]; !known {
			owners[place] = claims.Claim{Worker: places[place]}
		}
	}
	for _, r := range f.roster.remnants() {
		if _, known := owners[r.Place]; !known {
			owners[r.Place] = claims.Claim{}
		}
	}
	for place, c := range owners {
		all = append(all, f.moves.describe(place, c, places[place], len(frozen[place]) > 0))
	}
	order.By(all, func(a, b *PlaceInfo) int { return cmp.Compare(a.Place, b.Place) })
	return all
}

// Place returns a place, as in Places.
func (f *Front) Place(place string) PlaceInfo {
	holders, _ := f.roster.holding(place)
	at := ""
	if len(holders) > 0 {
		at = holders[0].Name
	}
	return f.moves.describe(place, f.cfg.Claims.Owner(place), at, len(holders) > 1)
}

// list returns the places that are moving, in order.
func (m *moves) list() (all []PlaceInfo) {
	for place, c := range m.front.cfg.Claims.Moving() {
		all = append(all, m.describe(place, c, "", false))
	}
	order.By(all, func(a, b *PlaceInfo) int { return cmp.Compare(a.Place, b.Place) })
	return all
}

// describe returns the description of a place. at is the worker at which it is in use, or
// empty.
func (m *moves) describe(place string, c claims.Claim, at string, several bool) PlaceInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.busy[place]
	// the result of the move will be recorded soon
	ends := d != nil && !c.Moving() && d.claim.Moving() && d.claim.Move == c.Move
	i := PlaceInfo{Place: place, Worker: c.Worker, To: c.To, From: c.From, Move: c.Move, Said: m.said[place], Moving: c.Moving() || ends}
	switch {
	case ends:
		i.State = "its move is ending"
	case several:
		i.State = "on several workers; none serves it"
	case c.To != "" && d != nil && d.claim == c:
		i.State = fmt.Sprintf("is being moved to %s: %d KiB are copied", c.To, d.copied.Load()>>10)
	case c.To != "":
		i.State = fmt.Sprintf("is to move to %s; another front moves it, or this one continues soon", c.To)
	case c.From == claims.FromFile:
		i.State = "is being made from a file"
	case c.From != "":
		i.State = fmt.Sprintf("has moved from %s, which has not removed its copy yet", c.From)
	case c.Worker == "":
		i.State = "remains from a move; both workers must be linked"
	case at == "":
		i.State = "its worker is not linked, or does not have it"
	case at != c.Worker:
		i.State = fmt.Sprintf("is on %s; none serves it", at)
	default:
		i.State = "at work"
	}
	if d != nil && d.claim == c && d.wrong != nil {
		i.State += "; " + clip(d.wrong.Error())
	}
	return i
}

// Move begins to move a place to another worker. An empty name chooses the worker with the
// fewest places. Move returns when the move has begun; it continues in the background.
func (f *Front) Move(ctx context.Context, place, to string) (PlaceInfo, error) {
	c, err := f.moves.depart(ctx, place, to)
	if err != nil {
		return PlaceInfo{}, fmt.Errorf("move place %s: %w", place, err)
	}
	return f.moves.describe(place, c, "", false), nil
}

// depart begins to move a place, and returns the new claim.
func (m *moves) depart(ctx context.Context, place, to string) (c claims.Claim, err error) {
	if err := m.agreed(); err != nil {
		return c, err
	}
	c = m.front.cfg.Claims.Owner(place)
	from := m.front.roster.named(c.Worker)
	switch holders, _ := m.front.roster.holding(place); {
	case c.Moving():
		return c, errors.New("it is being moved already; `belljar place list` shows its progress")
	case len(holders) == 0 || from == nil:
		return c, errors.New("no linked worker has it; start its worker first")
	case len(holders) > 1 || holders[0] != from:
		return c, errors.New("it is not clear which worker has it; see `belljar fleet doctor`")
	}
	l, err := m.target(to, from)
	if err != nil {
		return c, err
	}
	last, err := m.canMove(ctx, place, from, l)
	if err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.times.step)
	defer cancel()
	number, err := following(c, last)
	if err != nil {
		return c, err
	}
	next := c.Begin(l.Name, number)
	now, err := m.swap(ctx, place, c, next)
	if err == nil && now != next {
		err = errors.New("it has just changed; try it again")
	}
	if err != nil {
		return c, err
	}
	m.front.cfg.Log.Info("the move of a place begins", "place", place, "from", c.Worker, "to", l.Name, "move", next.Move)
	m.own(place, next)
	return next, nil
}

// agreed returns an error if a change of a claim by this front would not be known to all
// fronts.
func (m *moves) agreed() error {
	if err := m.front.cfg.Claims.Ready(); err != nil {
		return err
	}
	if m.front.cfg.SharedClaims {
		return nil
	}
	if w := ofSeveral(m.front.roster.linked()); w != nil {
		return fmt.Errorf("worker %s has %d fronts, and the others would not know of it; start all fronts with the same --nats", w.Name, w.Fronts)
	}
	return nil
}

// target returns the worker for a place. from is the worker that the place leaves; nil
// for a place from a file.
func (m *moves) target(to string, from *link) (*link, error) {
	takers := slices.DeleteFunc(m.front.roster.takers(), func(l *link) bool { return l == from })
	switch {
	case from != nil && to == from.Name:
		return nil, fmt.Errorf("worker %s has it already", to)
	case to == "" && len(takers) == 0:
		return nil, errors.New("no other worker accepts places")
	case to == "":
		return takers[0], nil
	}
	i := slices.IndexFunc(takers, func(l *link) bool { return l.Name == to })
	if i < 0 {
		return nil, fmt.Errorf("worker %q is not linked, or accepts no places now", clip(to))
	}
	return takers[i], nil
}

// canMove asks both workers whether a place can move, and returns the number of its last
// move. from is nil for a place from a file.
func (m *moves) canMove(ctx context.Context, place string, from, to *link) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.times.step)
	defer cancel()
	for _, l := range []*link{from, to} {
		if l == nil {
			continue
		}
		mark := claims.Mark{To: to.Name}
		if l == to {
			mark = claims.Mark{From: claims.FromFile}
		}
		looked, err := l.do(ctx, StepLook, Marked{place, mark})
		if err != nil {
			return 0, err
		}
		last = max(last, looked.Last)
	}
	return last, nil
}

// StopMove abandons a move that is not decided. The place stays where it is.
func (f *Front) StopMove(ctx context.Context, place string) error {
	c := f.cfg.Claims.Owner(place)
	if c.To == "" {
		return fmt.Errorf("stop the move of place %s: it is not being moved, or the move is decided already", place)
	}
	if err := f.moves.giveUp(ctx, place, c); err != nil {
		return fmt.Errorf("stop the move of place %s: %w", place, err)
	}
	return nil
}

// Export writes a place to out. Calls of the place wait meanwhile.
func (f *Front) Export(ctx context.Context, place string, out io.Writer) error {
	c := f.cfg.Claims.Owner(place)
	holders, _ := f.roster.holding(place)
	if c.Moving() || len(holders) != 1 || holders[0].Name != c.Worker {
		return fmt.Errorf("export place %s: it is not at work on one linked worker; `belljar place list` says where it is", place)
	}
	ctx, p, end := f.moves.times.startPace(ctx, f.moves.times.freeze, new(atomic.Int64))
	defer end()
	res, err := holders[0].step(ctx, StepPack, Marked{Place: place}, nil)
	if err == nil {
		_, err = io.Copy(out, p.through(res.Body))
		res.Body.Close()
	}
	if err != nil {
		return fmt.Errorf("export place %s: %w", place, causeOf(ctx, err))
	}
	return nil
}

// Import makes a place from the output of Export, at a worker; an empty name chooses the
// worker. It fails if the place exists.
func (f *Front) Import(ctx context.Context, place, to string, in io.Reader) error {
	l, err := f.moves.bring(ctx, place, to, in)
	if err != nil {
		return fmt.Errorf("import place %s: %w", place, err)
	}
	f.cfg.Log.Info("a place was imported", "place", place, "worker", l.Name)
	return nil
}

// receive makes a worker unpack a copy from a file.
func (m *moves) receive(ctx context.Context, l *link, mark Marked, in io.Reader) error {
	ctx, p, end := m.times.startPace(ctx, m.times.quiet, new(atomic.Int64))
	defer end()
	res, err := l.step(ctx, StepReceive, mark, p.through(in))
	if err != nil {
		return causeOf(ctx, err)
	}
	return res.Body.Close()
}

func (m *moves) bring(ctx context.Context, place, to string, in io.Reader) (*link, error) {
	if err := m.agreed(); err != nil {
		return nil, err
	}
	exists := func() bool {
		holders, _ := m.front.roster.holding(place)
		return m.front.cfg.Claims.Owner(place) != claims.Claim{} || len(holders) > 0 || m.front.roster.hasRemnant(place)
	}
	if exists() {
		return nil, errors.New("it exists; name another one, or `belljar fleet forget` it if its worker is lost")
	}
	l, err := m.target(to, nil)
	if err != nil {
		return nil, err
	}
	last, err := m.canMove(ctx, place, nil, l)
	if err != nil {
		return nil, err
	}
	number, err := following(claims.Claim{}, last)
	if err != nil {
		return nil, err
	}
	c := claims.Brought(l.Name, number)
	mark := Marked{place, claims.Mark{Move: c.Move, From: claims.FromFile}}
	if err := m.receive(ctx, l, mark, in); err != nil {
		return nil, err
	}
	now, err := m.swap(ctx, place, claims.Claim{}, c)
	if err != nil {
		return nil, err // reconcile cleans up
	}
	if now != c {
		_, _ = l.do(ctx, StepDiscard, mark)
		return nil, errors.New("a place of this name was made in the meantime")
	}
	now, err = m.finish(ctx, place, c)
	switch _, final := errors.AsType[*Refusal](err); {
	case final:
		_, undone := m.swap(ctx, place, c, claims.Claim{})
		return nil, errors.Join(err, undone)
	case err == nil && now != c.Settle():
		return nil, fmt.Errorf("its claim has changed: it belongs to worker %q", now.Worker)
	}
	return l, err // reconcile continues with it
}
