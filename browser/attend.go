package browser

import (
	"context"
	"strconv"
	"time"
)

// replaceAgain is how long a Chrome is kept after the start of its successor has failed.
const replaceAgain = time.Minute

// attend manages a Chrome as long as it lives: it makes the pages that later calls need,
// ends the Chrome when it does not answer or nobody uses it, and replaces it in time. It
// returns when the Chrome has ended or the Pool closes; ctx never ends.
func (p *Pool) attend(ctx context.Context, ch *chrome) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		beats := false
		select {
		case <-ch.conn.done:
			p.bereaved(ch)
			return
		case <-ch.box.Broken():
			p.bereaved(ch)
			return
		case <-p.quit:
			return // Close ends the Chrome
		case <-ch.poke:
		case <-tick.C:
			beats = true
		}
		p.mu.Lock()
		live, retired, idle := ch.live, ch.retired, time.Since(ch.used)
		missing := p.cfg.Slots - len(ch.ready) - live
		if live == 0 && idle >= p.cfg.Idle {
			p.retire(ch)
			retired = true
		}
		worn := !retired && time.Now().After(ch.stay) && (ch.pages >= p.cfg.Pages || time.Since(ch.started) >= p.cfg.Age)
		p.mu.Unlock()
		if beats && live > 0 && !ch.answers(ctx) {
			p.cfg.Log.Warn("browser does not answer", "box", ch.box.ID())
			ch.kill()
			continue
		}
		if retired {
			continue // its last pages must still be watched
		}
		if beats && live == 0 && !worn && time.Now().After(ch.stay) {
			worn = ch.box.Used().Memory > p.cfg.Memory
		}
		if worn {
			p.replace(ctx, ch)
			continue
		}
		// Pages are not all made at the same time: a call that arrives meanwhile needs the
		// CPU.
		if missing > 0 && (live == 0 || !beats) {
			p.fill(ctx, ch)
		}
	}
}

// bereaved retires a Chrome that has died.
func (p *Pool) bereaved(ch *chrome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ch.retired {
		p.stats.Died++
		p.cfg.Log.Warn("browser died", "box", ch.box.ID(), "err", ch.conn.err)
	}
	p.retire(ch)
}

// fill makes one more page for a later call.
func (p *Pool) fill(ctx context.Context, ch *chrome) {
	ctx, cancel := context.WithTimeout(ctx, beatPatience)
	defer cancel()
	t, err := newTab(ctx, ch)
	if err == nil {
		if err = t.warm(ctx); err != nil {
			ch.dispose(ctx, t)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			ch.kill()
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ch.ready = append(ch.ready, t) // the page ends with its Chrome, if that is retired by now
	if len(ch.ready)+ch.live < p.cfg.Slots {
		select {
		case ch.poke <- struct{}{}:
		default:
		}
	}
}

// replace starts a Chrome of the next generation, with pages ready, and puts it in the
// place of old, which is used until then: no call waits for the new Chrome.
func (p *Pool) replace(ctx context.Context, old *chrome) {
	p.mu.Lock()
	p.names++
	id := "browser-" + strconv.Itoa(p.names)
	old.stay = time.Now().Add(replaceAgain)
	p.mu.Unlock()
	starting, stop := p.alive(ctx) // otherwise Close would wait for a Chrome that does not start
	defer stop(nil)
	starting, cancel := context.WithTimeout(starting, startPatience+5*time.Second)
	defer cancel()
	ch, err := p.launch(starting, id, old.grant)
	if err != nil {
		if KindOf(context.Cause(starting)) != KindClosed {
			p.cfg.Log.Error("start browser in the place of another", "box", id, "err", err)
		}
		return
	}
	for range p.cfg.Slots {
		p.fill(starting, ch)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Started++
	ch.key, ch.used = old.key, time.Now()
	p.all[ch] = ch.used
	if p.closed || p.current[old.key] != old {
		p.retire(ch) // old was replaced or retired already, or the pool is closed
		return
	}
	p.stats.Recycled++
	p.current[ch.key] = ch
	p.retire(old)
	p.wg.Go(func() { p.attend(context.WithoutCancel(ctx), ch) })
}
