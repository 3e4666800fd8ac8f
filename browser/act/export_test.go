package act

// Kill ends the Chrome of a seat, as a crash does.
func (s *Seat) Kill() {
	s.mu.Lock()
	e := s.e
	s.mu.Unlock()
	e.lease.To.Close()
	<-e.g.done
}
