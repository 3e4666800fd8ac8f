package browser

// Cut cuts the pipes of all Chromes that run.
func (p *Pool) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ch := range p.all {
		ch.conn.in.Close()
	}
}

// Tried is what is said of a version.
var Tried = tried
