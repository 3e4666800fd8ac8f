package seccomp

// Options are the differences between the filters of boxes.
type Options struct {
	Leaves  bool // whether commands are born in a cgroup, which requires clone3
	Watched bool // whether no cgroup limits the memory, so that all memory must belong to a process
	Trace   bool // whether commands may trace each other: strace, gdb
	Nests   bool // whether a browser's sandbox makes namespaces of its own, see nest.go
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
