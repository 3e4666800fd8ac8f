package toolkit

import "belljar.dev/internal/toolkit/code/clone"

type DefectsResult struct{ Base }
type defectOptions struct {
	period     int
	confidence float64
	found      *clone.Result
	most       int
}

func (r *reading) defectsOf(o defectOptions) (*DefectsResult, error) { return &DefectsResult{}, nil }
func (r *DefectsResult) findings() []finding                         { return nil }
func (r *DefectsResult) tell(t *text, detailed bool)                 {}
