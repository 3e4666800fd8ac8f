package server

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/policies"
)

// policyStatus is the state of the policy as a server reports it. It is safe for concurrent
// use.
type policyStatus struct {
	mu  sync.Mutex
	now control.Policy // guarded by mu
}

// hold records the policy that is in force from now on.
func (s *policyStatus) hold(name string, p *policies.Policy) {
	if s == nil {
		return
	}
	file := name
	if name != config.BuiltinPolicy && !config.IsBundled(name) {
		if abs, err := filepath.Abs(name); err == nil {
			file = abs
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = control.Policy{Server: os.Getpid(), File: file, SHA256: p.Hash(), Since: time.Now()}
}

// refuse records why the policy of the file cannot replace the policy in force.
func (s *policyStatus) refuse(reason string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Refused, s.now.RefusedAt = policies.Clip(reason, 1000), time.Now()
}

func (s *policyStatus) info() control.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}
