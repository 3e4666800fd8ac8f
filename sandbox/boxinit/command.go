package boxinit

import (
	"syscall"
	"unsafe"
)

// This file is the part of process 1 of a box that is about commands: it starts commands,
// separates them from each other, reaps them and reports their ends. The rules of bare.go
// apply.

// bareStartCommand makes the child. The child runs in the memory of this process, on its
// own stack, and this process stops until the child has become the program or failed
// (CLONE_VFORK): nothing is copied.
//
//go:norace
//go:nocheckptr
func bareStartCommand(head *requestHead, n int) {
	b := &bare
	files := bareGiven(head.flags)
	if head.flags&FlagLeaf != 0 {
		files++
	}
	place := -1
	for i := range b.commands {
		if b.commands[i].pid == 0 {
			place = i
			break
		}
	}
	// Each of two lists ends with a null pointer.
	few, many := head.paths == 0 || head.argc == 0 || head.envc == 0, head.paths+head.argc+head.envc > MaxStrings
	if b.nfiles != files || few || many || place < 0 {
		bareFail(head.id, StepRequest, syscall.EINVAL)
		return
	}
	b.message[n] = 0
	at := requestSize
	c := &b.start
	c.flags, c.paths, c.step, c.errno = head.flags, head.paths, 0, 0
	c.dir = address(&b.message[at])
	at = bareSkip(at, n)
	next := 0
	for i := uint32(0); i < head.paths+head.argc+head.envc; i++ {
		if i == head.paths {
			c.argv = uintptr(unsafe.Pointer(&b.pointers[next]))
		}
		if i == head.paths+head.argc {
			b.pointers[next] = 0
			next++
			c.envp = uintptr(unsafe.Pointer(&b.pointers[next]))
		}
		b.pointers[next] = address(&b.message[at])
		next++
		at = bareSkip(at, n)
	}
	b.pointers[next] = 0

	k := &b.commands[place]
	k.id, k.nested = head.id, head.flags&FlagNested != 0
	k.dir, c.tell = noFile, noFile
	if head.flags&FlagDir != 0 {
		// A command can leave only a report of bounded length in the pipe, and neither end
		// waits.
		var ends [2]int32
		if _, errno := sys(syscall.SYS_PIPE2, uintptr(unsafe.Pointer(&ends)), syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0, 0, 0); errno != 0 {
			bareFail(head.id, StepClone, errno)
			return
		}
		k.dir, c.tell = uintptr(ends[0]), uintptr(ends[1])
	}
	// When memory runs out, the kernel's first choice should be a child. A score can be
	// raised and lowered again without privilege (proc_pid_oom_score_adj(5)).
	bareScore('1')
	var pid uintptr
	if k.nested {
		if pid = bareFork(head.flags); pid == 0 {
			bareNest(k)
		}
	} else {
		pid = bareClone(head.flags)
	}
	bareCloseOne(&c.tell)
	switch errno := -pid; {
	case errno < 4096:
		bareCloseOne(&k.dir)
		bareFail(head.id, StepClone, syscall.Errno(errno))
	case k.nested:
		bareCloseOne(&k.dir) // the copy of this process has its own copy
		k.pid = pid
	case c.errno != 0:
		_, _ = sys(syscall.SYS_WAIT4, pid, 0, 0, 0, 0)
		bareCloseOne(&k.dir)
		bareFail(head.id, c.step, c.errno)
	default:
		bareStarted(k, pid, head.flags)
	}
	if !k.nested {
		bareRoam()
	}
	bareScore('0')
}

// bareStarted records that a command runs, and reports it now or later. This process often
// runs again only after a quick command has ended, since both share a processor: then the
// command's end is reported before anything else is done. bareStarted first closes our
// copies of the command's files: closing them may wake the supervisor, which should happen
// before the report and not between.
//
//go:norace
//go:nocheckptr
func bareStarted(k *bareCommand, pid uintptr, flags uint32) {
	bareClose()
	k.pid = pid
	k.unsaid = true
	bare.unsaid++
	if flags&FlagPrompt != 0 {
		bareSayStarted()
	} else {
		bareReapOne()
	}
}

// bareSayStarted reports OpStarted for every command that was not reported yet.
//
//go:norace
//go:nocheckptr
func bareSayStarted() {
	b := &bare
	for i := 0; b.unsaid > 0 && i < len(b.commands); i++ {
		if k := &b.commands[i]; k.unsaid {
			k.unsaid = false
			b.unsaid--
			bareSay(&replyHead{op: OpStarted, id: k.id, pid: int32(k.pid)}, 0)
		}
	}
}

// bareNest is the whole run of the process 1 of a command's own pid namespace, in a copy of
// our memory. It shows the namespace in a /proc of its own, locks itself, runs the command,
// passes signals on, reaps and reports the end. When it ends, the kernel kills what the
// command left.
//
//go:norace
//go:nocheckptr
func bareNest(k *bareCommand) {
	b := &bare
	var name [16]byte // our number in the box, which is the target of its /proc/self
	n, _ := sys(syscall.SYS_READLINKAT, atCwd, address(&selfName[0]), address(&name[0]), uintptr(len(name)), 0)
	pid := int32(0)
	for i := 0; i < int(n) && i < len(name); i++ {
		pid = 10*pid + int32(name[i]-'0')
	}
	if _, errno := bareMake(b.nested[:b.nestedN]); errno != 0 {
		bareFail(k.id, StepClone, errno)
		exit(0)
	}
	all := ^uint64(0)
	_, _ = sys(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&all)), 0, sigSetSize, 0) // SIG_SETMASK
	signals, errno := sys(syscall.SYS_SIGNALFD4, noFile, uintptr(unsafe.Pointer(&all)), sigSetSize, syscall.O_CLOEXEC, 0)
	if errno != 0 {
		bareFail(k.id, StepClone, errno)
		exit(0)
	}
	command := bareClone(0)
	bareRoam()
	if errno := -command; errno < 4096 {
		bareFail(k.id, StepClone, syscall.Errno(errno))
		exit(0)
	}
	if b.start.errno != 0 {
		bareFail(k.id, b.start.step, b.start.errno)
		exit(0)
	}
	bareClose()
	bareCloseOne(&b.start.tell)
	bareSay(&replyHead{op: OpStarted, id: k.id, pid: pid}, 0)
	for {
		var info [128]byte // struct signalfd_siginfo, which begins with the number
		if _, errno := sys(syscall.SYS_READ, signals, address(&info[0]), uintptr(len(info)), 0, 0); errno != 0 {
			exit(1)
		}
		if sig := uintptr(info[0]); sig != uintptr(syscall.SIGCHLD) {
			if sig == stopNested {
				sig = uintptr(syscall.SIGSTOP)
			}
			_, _ = sys(syscall.SYS_KILL, -command, sig, 0, 0, 0)
			_, _ = sys(syscall.SYS_KILL, command, sig, 0, 0, 0)
			continue
		}
		for {
			var status int32
			var usage syscall.Rusage
			pid, errno := bareWait(&status, &usage)
			if errno != 0 || pid == 0 {
				break
			}
			if pid == command {
				bareEmpty()
				bareEnd(k, OpEnded, 0, status, &usage)
				exit(0)
			}
		}
	}
}

// bareEmpty kills the processes that are left in the namespace, where this is process 1,
// and waits until they are gone. The end of process 1 would kill them too, but only after
// the host was told of the end. One round kills all of them, since a process with a pending
// SIGKILL cannot make another one (kernel: copy_process).
//
//go:norace
//go:nocheckptr
func bareEmpty() {
	for errno := syscall.Errno(0); errno == 0; {
		_, _ = sys(syscall.SYS_KILL, noFile, uintptr(syscall.SIGKILL), 0, 0, 0)
		_, errno = sys(syscall.SYS_WAIT4, noFile, 0, 0, 0, 0)
	}
}

// bareGiven returns how many descriptors a command gets, from 0 on.
//
//go:norace
//go:nocheckptr
func bareGiven(flags uint32) int {
	if flags&FlagControl != 0 {
		return 5
	}
	return 3
}

// bareSkip returns the place after the string that begins at the place at.
//
//go:norace
//go:nocheckptr
func bareSkip(at, n int) int {
	for at < n && bare.message[at] != 0 {
		at++
	}
	return min(at+1, n)
}

//go:norace
//go:nocheckptr
func bareScore(first byte) {
	if bare.score == noFile {
		return
	}
	text := [4]byte{first, '0', '0', '0'}
	size := uintptr(4)
	if first == '0' {
		size = 1
	}
	_, _ = sys(syscall.SYS_WRITE, bare.score, address(&text[0]), size, 0, 0)
}

// bareFork copies this process into new pid and mount namespaces. It returns the pid of the
// copy, or an error number below zero.
//
//go:norace
//go:nocheckptr
func bareFork(flags uint32) uintptr {
	args := cloneArgs{0: cloneNewPID | cloneNewNS, 4: uint64(syscall.SIGCHLD)}
	if flags&FlagLeaf != 0 {
		args[0] |= cloneIntoCgroup
		args[10] = uint64(bare.files[bareGiven(flags)])
	}
	pid, errno := sys(sysClone3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0, 0, 0)
	if errno != 0 {
		return -uintptr(errno)
	}
	return pid
}

// bareClone makes the child and returns its pid, or an error number below zero. bareClone
// calls bareStay; its caller must call bareRoam.
//
//go:norace
//go:nocheckptr
func bareClone(flags uint32) uintptr {
	stack := address(&bare.child[0])
	bareStay()
	pid := uintptr(0)
	if flags&FlagLeaf != 0 {
		args := cloneArgs{
			0: cloneVM | cloneVfork | cloneIntoCgroup, 4: uint64(syscall.SIGCHLD),
			5: uint64(stack), 6: childStack, 10: uint64(bare.files[bareGiven(flags)]),
		}
		pid = cloneChild(sysClone3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	} else {
		pid = cloneChild(syscall.SYS_CLONE, cloneVM|cloneVfork|uintptr(syscall.SIGCHLD), stack+childStack)
	}
	return pid
}

// bareStay keeps this process on its processor, and with it the child that is made next.
// Otherwise the kernel would look for an idle processor for the child, while this process
// waits until the child is a program: waking another processor is most of what a quick
// command would cost more in a box than outside.
//
//go:norace
//go:nocheckptr
func bareStay() {
	b := &bare
	var cpu uint32
	_, errno := sys(sysGetcpu, uintptr(unsafe.Pointer(&cpu)), 0, 0, 0, 0)
	if at := cpu / 64; b.cpusSize > 0 && errno == 0 && at < maxCPUs/64 {
		b.here[at] = 1 << (cpu % 64)
		_, _ = sys(syscall.SYS_SCHED_SETAFFINITY, 0, b.cpusSize, uintptr(unsafe.Pointer(&b.here)), 0, 0)
		b.here[at] = 0
	}
}

// bareRoam ends the effect of bareStay: for this process, and in the child for the command.
//
//go:norace
//go:nocheckptr
func bareRoam() {
	if b := &bare; b.cpusSize > 0 {
		_, _ = sys(syscall.SYS_SCHED_SETAFFINITY, 0, b.cpusSize, uintptr(unsafe.Pointer(&b.cpus)), 0, 0)
	}
}

// bareChild becomes the command.
//
//go:norace
//go:nocheckptr
func bareChild() {
	b := &bare
	c := &b.start
	bareRoam()
	_, _ = sys(syscall.SYS_SETSID, 0, 0, 0, 0, 0)
	// The received descriptors have higher numbers than the targets.
	for i := 0; i < bareGiven(c.flags); i++ {
		_, _ = sys(syscall.SYS_DUP3, b.files[i], uintptr(i), 0, 0, 0)
	}
	switch c.tell { // c.tell was made after the received descriptors, so its number is higher
	case noFile:
	case DirFile: // the number is the same by chance; dup3(2) would refuse it
		_, _ = sys(syscall.SYS_FCNTL, DirFile, setFD, 0, 0, 0)
	default:
		_, _ = sys(syscall.SYS_DUP3, c.tell, DirFile, 0, 0, 0)
	}
	if c.flags&FlagTTY != 0 {
		_, _ = sys(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 0, 0, 0)
	}
	var none uint64
	_, _ = sys(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&none)), 0, sigSetSize, 0)
	if _, errno := sys(syscall.SYS_CHDIR, c.dir, 0, 0, 0, 0); errno != 0 {
		c.step, c.errno = StepDirectory, errno
		exit(127)
	}
	// Credentials belong to the child alone, although it shares the memory. The same is
	// true of the domain.
	if b.domain != noFile {
		if _, errno := sys(sysRestrictSelf, b.domain, 0, 0, 0, 0); errno != 0 {
			c.step, c.errno = StepDomain, errno
			exit(127)
		}
	}
	c.step, c.errno = StepExec, syscall.ENOENT
	for i := uint32(0); i < c.paths; i++ {
		// This is set before the call: if the call works, it does not return.
		saved := c.errno
		c.errno = 0
		_, _, errno := syscall.RawSyscall6(syscall.SYS_EXECVE, b.pointers[i], c.argv, c.envp, 0, 0, b.ours)
		c.errno = saved
		if errno != syscall.ENOENT && errno != syscall.ENOTDIR {
			c.errno = errno // like execvp(3), which continues after these two errors
		}
		if errno != syscall.ENOENT && errno != syscall.ENOTDIR && errno != syscall.EACCES {
			break
		}
	}
	exit(127)
}

// bareReapOne reaps one child if a child has ended. If it was a command, its end is
// reported; the end of an orphan is not.
//
//go:norace
//go:nocheckptr
func bareReapOne() bool {
	b := &bare
	var status int32
	var usage syscall.Rusage
	pid, errno := bareWait(&status, &usage)
	if errno != 0 || pid == 0 {
		return false
	}
	for i := range b.commands {
		c := &b.commands[i]
		if c.pid != pid {
			continue
		}
		c.pid = 0
		switch {
		case c.unsaid:
			c.unsaid = false
			b.unsaid--
			bareEnd(c, OpRan, pid, status, &usage)
		case !c.nested || status != 0: // a process 1 that ended with status 0 has reported the end itself
			bareEnd(c, OpEnded, 0, status, &usage)
		}
		break
	}
	return true
}

//go:norace
//go:nocheckptr
func bareWait(status *int32, usage *syscall.Rusage) (uintptr, syscall.Errno) {
	const noHang = 1
	return sys(syscall.SYS_WAIT4, noFile, uintptr(unsafe.Pointer(status)), noHang, uintptr(unsafe.Pointer(usage)), 0)
}

//go:norace
//go:nocheckptr
func bareEnd(c *bareCommand, what Op, pid uintptr, status int32, usage *syscall.Rusage) {
	r := replyHead{
		op: what, id: c.id, pid: int32(pid), status: status, rss: usage.Maxrss << 10,
		cpu: (usage.Utime.Sec+usage.Stime.Sec)*1e9 + (usage.Utime.Usec+usage.Stime.Usec)*1e3,
	}
	bareSay(&r, bareLastDir(c))
	bareCloseOne(&c.dir)
}

// bareLastDir reads what the command's shell reported as its last directory, into the place
// after a reply. Only the command and what it started have the other end: each command is
// in a domain or a namespace of its own, where no other command can open its descriptors.
// The command can write what it likes there, since it chooses the directory of the next
// command anyway.
//
//go:norace
//go:nocheckptr
func bareLastDir(c *bareCommand) uintptr {
	if c.dir == noFile {
		return 0
	}
	n, errno := sys(syscall.SYS_READ, c.dir, address(&bare.reply[replySize]), MaxDir+1, 0, 0)
	if errno != 0 {
		n = 0
	}
	return n
}
