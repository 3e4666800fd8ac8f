package server

import "slices"

// cleanup is what must be undone of what was opened so far.
type cleanup []func()

// add notes how the last step is undone.
func (c *cleanup) add(undo func()) { *c = append(*c, undo) }

// run undoes all steps, the last one first. A second run does nothing.
func (c *cleanup) run() {
	steps := *c
	*c = nil
	for _, undo := range slices.Backward(steps) {
		undo()
	}
}
