package boxinit

import (
	"syscall"
	"unsafe"
)

// This file and command.go are process 1 of a box: Go without its runtime. The kernel
// starts entry (in assembly) directly, so there are no goroutines, no garbage collector, no
// other threads, and no heap. The advantage: the init of a box is ready in microseconds,
// uses a few pages, makes no system call that is not in these files, and starts a command
// as fast as C could.
//
// The rules for code in these files: no allocation (no append, make, closures that escape,
// maps, interfaces, string building), no go, defer or channel, no package but syscall's
// RawSyscall6 and unsafe, and no pointer in initialised data (a position-independent
// program would need its relocations). An index out of range ends the process, and with it
// the box. The hooks of the race detector and of its check of pointers need the runtime, so
// functions are marked go:norace and go:nocheckptr.
//
// The init trusts what it reads from the supervisor, but nothing that a command can reach.

// Descriptors that an init is started with.
const (
	control = 3 // the connection to the supervisor
	program = 4 // this binary, for the loader
)

const (
	childStack  = 64 << 10
	ownStack    = 32 << 10
	maxNested   = 32 << 10
	maxCPUs     = 1024
	maxCommands = 512 // more than a supervisor runs in one box

	// quick is how long the report that a command runs is delayed, in nanoseconds: most
	// commands end before, and then one message reports both.
	quick = 1_000_000
)

var (
	selfName = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', 0}

	bare bareMemory
)

// bareMemory is all the memory that an init writes to. Lasting data are next to each other,
// because an idle box should use few pages.
type bareMemory struct {
	bareMessage
	// Data that last, from here to the end.
	stack   [ownStack]byte
	g       [1024]byte   // used instead of the runtime's g
	tls     [256]uintptr // the thread pointer points behind it
	began   uintptr      // address of the stack that the kernel made
	nfiles  int
	nestedN int
	ours    uintptr // marks our own execs if a listener sees the execs of commands; otherwise 0
	// ruleset with which each command separates itself from the others, or noFile
	domain   uintptr
	unsaid   int                  // number of started commands not yet reported with OpStarted
	score    uintptr              // descriptor of /proc/self/oom_score_adj, or noFile
	cpusSize uintptr              // bytes of cpus; 0 if they are not known
	cpus     [maxCPUs / 64]uint64 // processors that commands may run on, sched_setaffinity(2)
	here     [maxCPUs / 64]uint64 // one of these processors while bareStay sets it; otherwise empty
	start    bareStart
	commands [maxCommands]bareCommand
	nested   [maxNested + 8]byte // script that each command in a namespace of its own runs first
}

// bareMessage is memory that is not needed between two messages: see bareForget.
type bareMessage struct {
	message  [MaxMessage + 8]byte
	rights   [64 + 4*MaxFiles]byte
	files    [MaxFiles]uintptr
	pointers [MaxStrings + 8]uintptr
	slots    [maxSlots]uintptr
	reply    [MaxReply]byte
	child    [childStack]byte // stack of a child
}

// bareCommand is a command that runs. While it is in the table, its pid is not reaped.
type bareCommand struct {
	id     uint64
	pid    uintptr // 0 if the place is free
	nested bool    // the pid is that of a process 1, which reports the end itself
	unsaid bool
	dir    uintptr // pipe on which its shell reports its last directory; noFile if it does not
}

// bareStart is what a child needs to become a command, and where the child stores why it
// could not.
type bareStart struct {
	flags, paths    uint32 // the paths are the first of the pointers
	dir, argv, envp uintptr
	tell            uintptr // pipe on which its shell reports its last directory; noFile if it does not
	step            uint32
	errno           syscall.Errno
}

// loader and entry are in assembly, and are not called from Go.
func loader()
func entry()

// cloneChild makes a child that runs bareChild on a stack of its own.
func cloneChild(number, a1, a2 uintptr) uintptr

var loaderAddress, entryAddress uintptr

// Only the assembly uses these names, and linters do not read assembly.
var (
	_, _, _, _ = bareMain, bareChild, loader, entry
	_, _, _    = &bare.stack, &bare.g, &bare.tls
)

// Numbers that package syscall lacks, or has with another type.
const (
	sysClone3       = 435 // the same on all architectures since 424 (kernel: scripts/syscall.tbl)
	sysCloseRange   = 436
	sysRestrictSelf = 446
	cloneIntoCgroup = 0x200000000 // clone3(2)
	cloneVM         = 0x100
	cloneFiles      = 0x400
	cloneVfork      = 0x4000
	cloneNewPID     = 0x20000000
	cloneNewNS      = 0x20000
	msgCloexec      = 0x40000000
	sigSetSize      = 8
	pollIn          = 1
	noFile          = ^uintptr(0)
	atCwd           = ^uintptr(99) // AT_FDCWD
	setFD           = 2            // F_SETFD, fcntl(2)
	stopNested      = 64           // SIGRTMAX, signal(7): makes the process 1 of a command stop that command
)

//go:norace
//go:nocheckptr
func sys(number, a1, a2, a3, a4, a5 uintptr) (uintptr, syscall.Errno) {
	for {
		r, _, errno := syscall.RawSyscall6(number, a1, a2, a3, a4, a5, 0)
		if errno != syscall.EINTR {
			return r, errno
		}
	}
}

//go:norace
//go:nocheckptr
func exit(code uintptr) {
	for {
		_, _ = sys(syscall.SYS_EXIT_GROUP, code, 0, 0, 0, 0)
	}
}

//go:norace
//go:nocheckptr
func address(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// bareMain is the whole run of process 1.
//
//go:norace
//go:nocheckptr
func bareMain() {
	// An exec closes the descriptors that the caller of belljar had left open
	// (CVE-2024-21626), and all that are opened later.
	const cloexec = 4 // CLOSE_RANGE_CLOEXEC, Linux 5.11
	if _, errno := sys(sysCloseRange, control, noFile>>32, cloexec, 0, 0); errno != 0 {
		exit(1)
	}
	// Every command would inherit the signals that the supervisor ignores, for
	// example SIGHUP under nohup(1).
	var action [4]uint64
	for sig := uintptr(1); sig <= 64; sig++ {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, sigSetSize, 0, 0)
	}
	_, _ = sys(syscall.SYS_MUNMAP, loaderBase, loaderSize, 0, 0, 0) // the loader is no longer needed
	bareLeave()
	n := bareReceive()
	head := (*scriptHead)(unsafe.Pointer(&bare.message[0]))
	for i := 0; i < int(head.slots); i++ {
		bare.slots[i] = noFile
	}
	for i := 0; i < bare.nfiles; i++ {
		bare.slots[i] = bare.files[i]
	}
	if step, errno := bareMake(bare.message[:n]); errno != 0 {
		bareFail(0, step, errno)
		exit(1)
	}
	bare.score = noFile
	if head.score >= 0 {
		bare.score = bare.slots[head.score]
	}
	bare.ours = uintptr(head.ours)
	bare.domain = noFile
	if head.domain >= 0 {
		bare.domain = bare.slots[head.domain]
	}
	if head.nested != 0 {
		// The script for the namespace of each command is kept for later.
		n = bareReceive()
		if n > maxNested {
			exit(1)
		}
		for i := 0; i < n; i++ {
			bare.nested[i] = bare.message[i]
		}
		bare.nestedN = n
	}
	bareSay(&replyHead{op: OpReady}, 0)
	bareForget()
	bareServe()
}

// bareLeave unmaps everything that the kernel put far above the program: its stack and the
// vdso(7), which the init does not call. Their contents are small, but the five pages of
// tables by which they are found are more than half of the memory of an init. A kernel that
// seals the vdso refuses, and nothing is lost.
//
//go:norace
//go:nocheckptr
func bareLeave() {
	const above, last = 1 << 32, 4 << 10 // no program reaches that far; the last page cannot be mapped
	end := uintptr(above)
	for end <= bare.began {
		end <<= 1
	}
	_, _ = sys(syscall.SYS_MUNMAP, above, end-last-above, 0, 0, 0)
}

// bareForget returns the pages of the last message to the kernel, and those of all memory
// that was needed to process it: a script is long, and an idle box should use little
// memory.
//
//go:norace
//go:nocheckptr
func bareForget() {
	// With larger pages the kernel refuses, and nothing is lost. dontNeed is MADV_DONTNEED.
	const page, dontNeed = 4 << 10, 4
	begin := (address(&bare.message[0]) + page - 1) &^ uintptr(page-1)
	end := (address(&bare.reply[0]) + MaxReply) &^ uintptr(page-1)
	_, _ = sys(syscall.SYS_MADVISE, begin, end-begin, dontNeed, 0, 0)
}

// bareReceive reads one message and the descriptors that came with it. The end of the
// connection is the end of the box: the kernel kills all processes that are left in the
// namespace of a process 1 that has ended (pid_namespaces(7)).
//
//go:norace
//go:nocheckptr
func bareReceive() int {
	b := &bare
	iov := syscall.Iovec{Base: &b.message[0], Len: uint64(len(b.message))}
	msg := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &b.rights[0], Controllen: uint64(len(b.rights))}
	n, errno := sys(syscall.SYS_RECVMSG, control, uintptr(unsafe.Pointer(&msg)), msgCloexec, 0, 0)
	if errno != 0 || n == 0 || msg.Flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		exit(0)
	}
	b.nfiles = 0
	const head = 16 // struct cmsghdr, cmsg(3)
	if msg.Controllen > head {
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&b.rights[0]))
		if h.Type == syscall.SCM_RIGHTS {
			b.nfiles = int(h.Len-head) / 4
		}
		for i := 0; i < b.nfiles; i++ {
			b.files[i] = uintptr(*(*int32)(unsafe.Pointer(&b.rights[head+4*i])))
		}
	}
	return int(n)
}

// bareMake makes the calls of a script. If a call fails, it returns the step of that call
// and its errno.
//
//go:norace
//go:nocheckptr
func bareMake(script []byte) (uint32, syscall.Errno) {
	b := &bare
	head := (*scriptHead)(unsafe.Pointer(&script[0]))
	begin := scriptSize + int(head.ops)*opSize
	if len(script) < begin || len(script) < begin+int(head.data) {
		return 0, syscall.EINVAL
	}
	data := address(&script[0]) + uintptr(begin)
	for i := 0; i < int(head.ops); i++ {
		o := (*op)(unsafe.Pointer(&script[scriptSize+i*opSize]))
		var a [6]uintptr
		for k := range a {
			switch v := uintptr(o.args[k]); o.kinds[k] {
			case kindData:
				a[k] = data + v
			case kindSlot:
				a[k] = b.slots[v]
			default:
				a[k] = v
			}
		}
		if o.number == callStore {
			for k := uintptr(0); k < a[2]; k++ {
				script[a[0]-address(&script[0])+k] = byte(a[1] >> (8 * k))
			}
			continue
		}
		r, _, errno := syscall.RawSyscall6(uintptr(o.number), a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			if o.ignore != AnyError && syscall.Errno(o.ignore) != errno {
				return uint32(o.step), errno
			}
			i += int(o.skip)
			continue
		}
		if o.save >= 0 {
			b.slots[o.save] = r
		}
	}
	return 0, 0
}

// bareServe starts commands, reports how they end and reaps every orphan, because it is
// process 1.
//
//go:norace
//go:nocheckptr
func bareServe() {
	mask := uint64(1) << (uint(syscall.SIGCHLD) - 1)
	_, _ = sys(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&mask)), 0, sigSetSize, 0) // SIG_SETMASK
	const flags = syscall.O_CLOEXEC | syscall.O_NONBLOCK
	deaths, errno := sys(syscall.SYS_SIGNALFD4, noFile, uintptr(unsafe.Pointer(&mask)), sigSetSize, flags, 0)
	if errno != 0 {
		exit(1)
	}
	var poll [2]struct {
		fd              int32
		events, revents int16
	}
	// With more processors than fit into cpus the call fails, and commands start without
	// it.
	bare.cpusSize, _ = sys(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(bare.cpus), uintptr(unsafe.Pointer(&bare.cpus)), 0, 0)
	if bare.cpusSize > unsafe.Sizeof(bare.cpus) {
		bare.cpusSize = 0 // the result is an error number
	}
	for {
		poll[0].fd, poll[0].events, poll[0].revents = control, pollIn, 0
		poll[1].fd, poll[1].events, poll[1].revents = int32(deaths), pollIn, 0
		timeout := [2]int64{0, quick}
		until := uintptr(0)
		if bare.unsaid > 0 {
			until = uintptr(unsafe.Pointer(&timeout))
		}
		if _, errno := sys(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 2, until, 0, sigSetSize); errno != 0 {
			exit(1)
		}
		if poll[1].revents != 0 {
			bareReapOne()      // the end of a command is reported before anything else is done
			var info [128]byte // struct signalfd_siginfo
			_, _ = sys(syscall.SYS_READ, deaths, address(&info[0]), uintptr(len(info)), 0, 0)
			for bareReapOne() { // one signal can stand for the ends of several children
			}
		}
		bareSayStarted() // in every case: many ends of processes must not delay it
		if poll[0].revents != 0 {
			bareAnswer(bareReceive())
			bareClose()
		}
	}
}

// bareClose closes the descriptors that came with the last message.
//
//go:norace
//go:nocheckptr
func bareClose() {
	b := &bare
	for i := 0; i < b.nfiles; i++ {
		_, _ = sys(syscall.SYS_CLOSE, b.files[i], 0, 0, 0, 0)
	}
	b.nfiles = 0
}

// bareCloseOne closes a descriptor, if there is one.
//
//go:norace
//go:nocheckptr
func bareCloseOne(fd *uintptr) {
	if *fd != noFile {
		_, _ = sys(syscall.SYS_CLOSE, *fd, 0, 0, 0, 0)
		*fd = noFile
	}
}

//go:norace
//go:nocheckptr
func bareAnswer(n int) {
	b := &bare
	head := (*requestHead)(unsafe.Pointer(&b.message[0]))
	if n < requestSize {
		exit(1)
	}
	switch head.op {
	case OpStart:
		bareStartCommand(head, n)
	case OpSignal:
		for i := range b.commands {
			// The child is not reaped while it is in the table, so no other process can
			// have its pid or its process group.
			c := &b.commands[i]
			if c.pid == 0 || c.id != head.id {
				continue
			}
			sig := uintptr(head.signal)
			if c.nested && sig == uintptr(syscall.SIGSTOP) {
				sig = stopNested // otherwise only process 1 would stop
			}
			_, _ = sys(syscall.SYS_KILL, -c.pid, sig, 0, 0, 0)
			_, _ = sys(syscall.SYS_KILL, c.pid, sig, 0, 0, 0)
		}
	case OpSocket:
		bareSocket(head.id)
	case OpIdle:
		bareSay(&replyHead{op: OpIdle, id: head.id, errno: int32(bareHolds())}, 0)
	// only the init sends these, never the supervisor
	case OpReady, OpFailed, OpStarted, OpEnded, OpRan, OpListener, OpKept:
	}
}

// bareHolds returns EBUSY, or another errno, if something would be lost with the init: a
// process, or an object that processes leave for others (sysvipc(7)). A count that cannot
// be read is returned as an error; a kernel without such objects has none.
//
//go:norace
//go:nocheckptr
func bareHolds() syscall.Errno {
	const (
		noHang, exited, noWait    = 1, 4, 0x1000000 // waitid(2)
		shmInfo, semInfo, msgInfo = 14, 19, 12      // counts of all objects: shmctl(2), semctl(2), msgctl(2)
		sets                      = 7               // place of semusz in struct seminfo: the number of sets
	)
	if _, errno := sys(syscall.SYS_WAITID, 0, 0, 0, exited|noHang|noWait, 0); errno != syscall.ECHILD {
		return syscall.EBUSY
	}
	var info [32]int32
	at := uintptr(unsafe.Pointer(&info))
	_, errno := sys(syscall.SYS_SHMCTL, 0, shmInfo, at, 0, 0)
	held := info[0]
	if errno == 0 {
		_, errno = sys(syscall.SYS_SEMCTL, 0, 0, semInfo, at, 0)
		held += info[sets]
	}
	if errno == 0 {
		_, errno = sys(syscall.SYS_MSGCTL, 0, msgInfo, at, 0, 0)
		held += info[0]
	}
	if errno != 0 && errno != syscall.ENOSYS {
		return errno
	}
	if held != 0 {
		return syscall.EBUSY
	}
	return 0
}

// bareSocket makes a TCP socket of the box's network and sends it to the supervisor.
//
//go:norace
//go:nocheckptr
func bareSocket(id uint64) {
	fd, errno := sys(syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		bareFail(id, StepSocket, errno)
		return
	}
	*(*replyHead)(unsafe.Pointer(&bare.reply[0])) = replyHead{op: OpSocket, id: id}
	// struct cmsghdr with one descriptor, cmsg(3)
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&bare.rights[0]))
	h.Len, h.Level, h.Type = 20, syscall.SOL_SOCKET, syscall.SCM_RIGHTS
	*(*int32)(unsafe.Pointer(&bare.rights[16])) = int32(fd)
	iov := syscall.Iovec{Base: &bare.reply[0], Len: replySize}
	msg := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &bare.rights[0], Controllen: 24}
	_, errno = sys(syscall.SYS_SENDMSG, control, uintptr(unsafe.Pointer(&msg)), syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		exit(1)
	}
	_, _ = sys(syscall.SYS_CLOSE, fd, 0, 0, 0, 0)
}

//go:norace
//go:nocheckptr
func bareFail(id uint64, step uint32, errno syscall.Errno) {
	bareSay(&replyHead{op: OpFailed, id: id, step: step, errno: int32(errno)}, 0)
}

// bareSay sends a reply, with dir bytes behind it.
//
//go:norace
//go:nocheckptr
func bareSay(r *replyHead, dir uintptr) {
	r.dirLen = uint32(dir)
	*(*replyHead)(unsafe.Pointer(&bare.reply[0])) = *r
	_, errno := sys(syscall.SYS_SENDTO, control, address(&bare.reply[0]), replySize+dir, syscall.MSG_NOSIGNAL, 0)
	if errno != 0 {
		exit(1)
	}
}
