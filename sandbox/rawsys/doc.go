// Package rawsys makes system calls that do not block, without telling the Go runtime, and
// waits for files by epoll instances of its own.
//
// Before an ordinary system call the runtime notes that the thread may block, and in an
// idle program it wakes its monitor thread for that. For a quick command in a box this
// costs two thread switches and some sleeps of 20 us, on the CPU on which the command
// should run. Package sandbox and its parts use this package for the calls that start and
// end a command, and for no others.
//
// A call that can block must not be made in this way: nothing else could use the P
// meanwhile, and a garbage collection would have to wait. So the caller must pass only
// files that are non-blocking, or on which the call cannot block.
package rawsys
