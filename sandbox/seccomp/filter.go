package seccomp

// Options are where the filters of two boxes may differ.
type Options struct {
	Leaves  bool // commands are born in a cgroup, which takes clone3
	Watched bool // no cgroup holds the memory, so none may belong to no process
	Trace   bool // commands may trace each other: strace, gdb
	Nests   bool // a browser's sandbox makes namespaces of its own: nest.go
}

// Filter returns the program that says which system calls a box may make, for
// this machine: the bytes of a struct sock_filter array, seccomp(2).
func Filter(opt Options) ([]byte, error) {
	a, err := ownABI()
	if err != nil {
		return nil, err
	}
	return assemble(compile(a.audit, calls(a, opt)))
}
