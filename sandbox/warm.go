package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/policies/shell"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/rawsys"
)

const (
	// warmScript bounds the script of a warm shell, in bytes. A pipe holds twice as much
	// (pipe(7)), so that writing the script hardly ever blocks.
	warmScript = 32 << 10
	// warmLate is how long a command runs before the next warm shell is started beside it.
	// It is longer than a short command takes.
	warmLate = 20 * time.Millisecond
)

// warmMain is the program of a warm shell. It reads its script from descriptor 3, until the
// end of the file, and reports on descriptor 4 that the script begins.
//
// The report is a line of bash's own trace, which begins with PS4: writing the line and
// closing descriptor 4 takes three system calls, and a redirection would take twenty. No
// part of the script has run before descriptor 4 is closed, so no script can write or take
// back a report. While the shell waits, descriptor 3 is moved to a number that bash closes
// for the programs that the script executes (see keepDir). The script can only read the end
// of the file from it, and nobody writes to it any more.
//
// The variable BASH_EXECUTION_STRING has the name that bash itself gives to the text of -c,
// and ": bash" gives $_ the value that it has in a new shell.
const warmMain = keepDir + `{ exec 59<&10; } 3<&-; exec 3<&-; BASH_XTRACEFD=4; ` +
	`unset -v BASH_EXECUTION_STRING; . /dev/fd/59; [[ -v BASH_EXECUTION_STRING ]] || exit 127; ` +
	`PS4=r eval 'set -x; set +x'; unset -v BASH_XTRACEFD; SECONDS=0; eval ": bash;$BASH_EXECUTION_STRING"`

// warmText returns the text that is sent to a warm shell: the change of directory, and the
// script.
func warmText(dir, script string) string {
	text := ""
	if dir != WorkspaceDir { // the shell waits in WorkspaceDir, which cannot have moved
		// Nobody reads the error text of cd.
		text = "builtin cd -P -- " + quote(dir) + " || { printf d >&4; exit 127; }\nunset -v OLDPWD; export OLDPWD\n"
	}
	if mayMove(script) {
		text += tellDir
	}
	return text + "BASH_EXECUTION_STRING=" + quote(script) + "\n"
}

// quote returns text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// sensitive matches scripts that could tell a warm shell from a new one: a trace shows each
// command with one more "+", and bash reports the place of a syntax error differently.
// Patterns of extglob are such errors if extglob is off.
var sensitive = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bset\b[^\n;&|]*[-+][A-Za-z]*[vx]|xtrace|verbose|SHELLOPTS|BASHOPTS|BASH_ENV|BASH_ARGV|BASH_LINENO|[!?*+@]\(`)
})

// warms reports whether a warm shell can run the command as a new one would.
func (c *Cmd) warms() bool {
	return c.Shell != "" && len(c.Shell) <= warmScript && len(c.Env) == 0 && len(c.Stdin) == 0 && !c.Background &&
		!c.streams() && len(c.Files) == 0 && !sensitive().MatchString(c.Shell) && shell.Parses(c.Shell)
}

// warmSoon starts the next warm shell when the command has ended (see finish) or has run
// for warmLate. If both started at the same time, they would slow each other down.
func (b *Box) warmSoon(j *Job) {
	switch {
	case b.sup.cfg.Cold || !follows(b.grant):
	case j.Status() != Running:
		b.warmUp()
	default:
		j.warming.Store(time.AfterFunc(warmLate, b.warmUp))
	}
}

// warmUp starts a warm shell in the background, unless the box has one.
func (b *Box) warmUp() {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if b.table.cause != nil || b.life.parked || b.table.warm != nil || b.table.warming || !b.life.waking.TryRLock() {
		return
	}
	b.table.warming = true
	w := &warmShell{job: newJob(b), control: noPipe, status: noPipe, held: -1}
	w.job.wire = b.table.nextID()
	b.table.warm = w // the shell must be in the table to get its replies
	b.table.wg.Go(func() {
		defer b.life.waking.RUnlock()
		err := w.start()
		b.table.mu.Lock()
		b.table.warming = false
		w.ready = err == nil && b.table.cause == nil && b.table.warm == w
		if !w.ready && b.table.warm == w {
			b.table.warm = nil
		}
		keep := w.ready
		b.table.mu.Unlock()
		if keep {
			b.life.restLater()
		} else {
			w.drop()
		}
	})
}

// start starts the shell and waits until the init reports that it runs.
func (w *warmShell) start() error {
	j := w.job
	files, err := j.streams.connect(j.box, &Cmd{})
	defer func() { boxinit.CloseAll(files) }() // request closes the descriptors that it gets; files holds the rest
	if err != nil {
		return err
	}
	var control, status [2]int
	if err := unix.Pipe2(control[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	files, w.control.fd = append(files, control[0]), control[1]
	// The shell opens this end again, through /dev/fd, so the box's user must own it.
	if err := unix.Fchown(control[0], j.box.means.uid, -1); err != nil {
		return fmt.Errorf("hand out pipe: %w", err)
	}
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	files, w.status.fd = append(files, status[1]), status[0]
	for _, p := range []pipe{w.control, w.status} {
		if err := unix.SetNonblock(p.fd, true); err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
	}
	if w.held, err = unix.FcntlInt(uintptr(files[2]), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	dir := "/tmp"
	if j.box.grant.Workspace() != policies.AccessNone {
		dir = WorkspaceDir
	}
	req := &boxinit.Request{
		Op: boxinit.OpStart, Flags: boxinit.FlagControl | boxinit.FlagPrompt | boxinit.FlagDir, ID: j.wire, Dir: dir, Env: j.box.means.env,
		Paths: []string{shellPath}, Argv: []string{"bash", "-c", warmMain},
	}
	if j.box.means.nested {
		req.Flags |= boxinit.FlagNested
	}
	given := files
	files = nil
	r, err := j.request(&Cmd{Shell: warmMain}, req, given)
	if err == nil && r.Op != boxinit.OpStarted {
		err = errors.New("start a warm shell: it ended")
	}
	return err
}

// startWarm gives the command to the warm shell. Without a warm shell, or if the shell has
// ended, startWarm runs nothing and returns neither a job nor an error.
func startWarm(b *Box, c *Cmd) (*Job, error) {
	if !c.warms() {
		return nil, nil //nolint:nilnil // documented
	}
	b.table.mu.Lock()
	w := b.table.warm
	if w == nil || !w.ready {
		b.table.mu.Unlock()
		return nil, nil //nolint:nilnil // documented
	}
	j := w.job
	err := b.table.enter(c, j)
	if err == nil {
		b.table.warm = nil
	}
	b.table.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := j.guard(); err != nil {
		w.drop()
		j.giveUp()
		return nil, err
	}
	end, over := w.tell(c)
	patience := b.sup.patience.start
	if over {
		patience = 0
	}
	word := w.lastWord(patience)
	if word == 'r' {
		w.close()
		j.follow(c, end, over)
		return j, nil
	}
	w.kill()
	if word == 0 {
		word = w.lastWord(b.sup.patience.kill)
	}
	w.close()
	j.giveUp()
	switch word {
	case 'r':
		return nil, &limit.Refusal{Message: "the command was started and ended immediately, because its start took too long; check what it did before you run it again", Ran: true}
	case 'd':
		r := boxinit.Reply{Op: boxinit.OpFailed, Step: boxinit.StepDirectory, Errno: syscall.ENOENT}
		return nil, c.explain(b.means.image, r, &boxinit.Request{Dir: c.dir(b)})
	}
	return nil, nil //nolint:nilnil // documented
}

// tell sends the script and waits a short time for the end of the command. If the command
// has ended by then, over is true and end is the init's report of it.
func (w *warmShell) tell(c *Cmd) (end boxinit.Reply, over bool) {
	j := w.job
	text := warmText(c.dir(j.box), c.Shell)
	n, err := rawsys.Write(w.control.fd, []byte(text))
	if n = max(n, 0); n < len(text) && (err == nil || errors.Is(err, unix.EAGAIN)) {
		f := w.control.wait()
		_ = f.SetWriteDeadline(time.Now().Add(j.box.sup.patience.start))
		_, _ = f.WriteString(text[n:]) // a shell that does not read does not begin
	}
	w.control.close() // the shell reads until its pipe is closed
	how := initconn.Glance(j.streams.pipes[1].fd)
	if c.Timeout <= 2*initconn.GlanceTime {
		how = initconn.Listen
	}
	j.box.init.conn.Hear(how, j.box.init.hear, j.replies.some)
	w.release()
	select {
	case end = <-j.replies: // OpEnded: OpStarted was received before
		return end, true
	default:
		return end, false
	}
}

// lastWord returns the next word of the shell, or 0 if no word arrives within patience.
// After a shell was killed, the caller must call lastWord once more before it gives the
// script to another shell: the killed shell may just have begun the script.
func (w *warmShell) lastWord(patience time.Duration) byte {
	var word [1]byte
	n, err := 0, error(unix.EAGAIN)
	if w.status.file == nil {
		n, err = rawsys.Read(w.status.fd, word[:])
	}
	if errors.Is(err, unix.EAGAIN) && patience > 0 {
		f := w.status.wait()
		_ = f.SetReadDeadline(time.Now().Add(patience))
		n, err = f.Read(word[:])
	}
	if err != nil || n != 1 {
		return 0
	}
	return word[0]
}
