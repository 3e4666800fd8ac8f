// Package initconn is the connection of the supervisor to the init of a box, and the
// ways in which a goroutine that started a command is notified of its start and its end.
//
// One goroutine of each box listens all the time, because an init can end at any
// moment. The best strategy for a command depends on how soon it ends. Every wake of
// this program switches threads on the CPU on which the command runs. When one
// goroutine passes a message on to another, the runtime also wakes a thread to share
// the work, and this thread finds no work. So there are three strategies. Attend and
// Glance serve only the beginning of a command; Listen receives all the rest.
//
//   - [Listen]: the goroutine that listens receives the answer, and passes it on. It is
//     for what takes long: streams, background jobs, and every other command after its
//     beginning.
//   - [Attend]: the caller takes the turn at the socket, and receives the answer itself.
//     It is for every start of a process: the answer arrives immediately, or within the
//     millisecond by which an init delays it for the end of a quick command. It saves
//     a thread that is woken in vain: /bin/true took 1.10 times as long as a plain fork
//     and exec of the same program (raw) with Listen, and 1.04 to 1.07 times with Attend
//     and the system calls of package rawsys, which were measured together.
//   - [Glance]: the same for a shell that already runs when it is given its script, so
//     that only its end must be received. It ends after 1.5 ms ([GlanceTime]), or earlier
//     when the command writes to stderr; its output is not read meanwhile. It is not used
//     for a command whose timeout is at most twice that time. `echo` in a shell that waits
//     took 0.43 times as long as raw with Listen, and 0.34 times with Glance.
//
// If another goroutine has the turn, Attend and Glance return, and that goroutine or Listen
// receives the answer. The result is the same; only time is lost.
//
// The files, each calling those below it:
//
//	strategy.go  the strategies
//	conn.go      the connection
package initconn
