package sandbox

// Output is what a command wrote, bounded; see the methods.
type Output struct{}
