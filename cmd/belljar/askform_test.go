package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/testenv"
)

// TestAskForm checks what a form shows after each key on a wide terminal, and at the end on
// a small one.
func TestAskForm(t *testing.T) {
	sheet, err := question.Parse(fourQuestions)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	f := newAskForm(question.Asked{ID: "q-1", Tenant: "local", Place: "/srv/ws", Sheet: sheet})
	show := func(width, height int) {
		fmt.Fprintln(&got, strings.Join(f.lines(width, height), "\n")+"\n----")
	}
	press := func(keys ...string) {
		for _, key := range keys {
			f.press(key)
		}
		fmt.Fprintf(&got, "%q\n", keys)
	}
	show(80, 24)
	press(keyDown, keyDown, keyDown, keyUp)
	show(80, 24)
	press("x", keyRub, keyRub, keyEnter)
	show(80, 24)
	press("2", keyEnter)
	show(80, 24)
	press(keyBar, keyDown, keyDown, keyBar, "a", "n", "d", keyBar, "more", "\x1b[5~")
	show(80, 24)
	show(24, 9)
	press(keyEnter, "m", keyDown, keyDown)
	show(80, 24)
	press("1", keyEnter, keyTab)
	fmt.Fprintf(&got, "%v %v\n", f.state == formAnswered, f.words)
	for _, keys := range [][]string{{keyTab, keyTab, keyTab, keyTab}, {keyDecline}, {"x", keyEsc}, {"x", keyLeave}} {
		f = newAskForm(f.asked)
		press(keys...)
		fmt.Fprintln(&got, map[askState]string{formOpen: "open", formAnswered: "answered", formDeclined: "declined", formLeft: "left"}[f.state])
	}
	golden.Equal(t, "askform.golden", got.String())
}

func TestKeysOfATerminal(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"aé\r", []string{"a", "é", keyEnter}},
		{"\x1b", []string{keyEsc}},
		{"\x1b[A\x1bOB\x1b[5~x", []string{keyUp, keyDown, "\x1b[5~", "x"}},
		{"\x1b[", []string{"\x1b["}},
		{"\xff\n", []string{"\xff", keyEnter}},
	} {
		if got := keysIn(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// pty returns both ends of a terminal.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "master")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	// The descriptor is used instead of a path, because another /dev/pts may be mounted
	// here.
	end, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	slave = os.NewFile(end, "slave")
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// typist is a person at a terminal on which a command runs.
type typist struct {
	t    *testing.T
	term *os.File
	cmd  *exec.Cmd
	seen string // output since the last key
	all  string
}

// size changes the size of the terminal.
func (p *typist) size(columns, rows uint16) {
	p.t.Helper()
	raw, err := p.term.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err != nil || failed != nil {
		p.t.Fatal(err, failed)
	}
}

// sees waits until the terminal shows a text.
func (p *typist) sees(want string) {
	p.t.Helper()
	if err := p.term.SetReadDeadline(time.Now().Add(30 * time.Second * testenv.Patience(p.t))); err != nil {
		p.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for !strings.Contains(p.seen, want) {
		n, err := p.term.Read(buf)
		p.seen += string(buf[:n])
		p.all += string(buf[:n])
		if err != nil && !strings.Contains(p.seen, want) {
			p.t.Fatalf("the terminal never shows %q, %v:\n%s", want, err, p.seen)
		}
	}
}

func (p *typist) types(keys ...string) {
	p.t.Helper()
	p.seen = ""
	for _, key := range keys {
		if _, err := p.term.WriteString(key); err != nil {
			p.t.Fatal(err)
		}
	}
}

// TestAskOnATerminal checks the form on a real terminal: one question after the other, the
// cursor, marks, the person's own words, another size of the window, leaving the form, and
// a terminal that cannot show a form.
func TestAskOnATerminal(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	k := &chat{place: newPlace(t)}
	c := k.start(t, wires[0]).connect(t, wires[0], nil)
	id, heard := k.asks(t, c, 0, fourQuestions)
	at := func(kind string, args ...string) *typist {
		master, slave := pty(t)
		p := &typist{t: t, term: master, cmd: k.command(t.Context(), append([]string{"ask", "answer", "--state", k.state}, args...)...)}
		p.size(80, 24)
		p.cmd.Env = append(slices.Clone(p.cmd.Env), "TERM="+kind)
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		return p
	}

	p := at("xterm")
	p.sees("Esc: leave.")
	p.types("\x1b")
	p.sees(id + ": not answered. It still waits.")
	if err := p.cmd.Wait(); err != nil || !strings.Contains(p.all, "\x1b[?1049l") || !strings.Contains(p.all, "\x1b[?25h") {
		t.Errorf("after it was left: %v, %q", err, p.all)
	}

	p = at("xterm", id)
	p.sees("> 1) SQLite (Recommended)")
	p.types("\x1b[B")
	p.sees("> 2) Postgres")
	p.types()
	p.size(30, 40)
	p.sees("Up, Down: move. Enter:\r\n") // this line is not split on a wide terminal
	p.types()
	p.size(100, 40)
	p.sees("Ctrl-D: decline all. Esc: leave.")
	p.types("\r")
	p.sees("Question 2 of 4")
	p.types(" ", "\x1b[B", "\x1b[B", " ", "and docs")
	p.sees("Your own words: and docs_")
	p.types("\r")
	p.sees("Question 3 of 4")
	p.types("2", "\r")
	p.sees("Question 4 of 4")
	p.types("a nam", "\x7f", "me", "\r")
	p.sees(id + ": answered. The agent is notified.")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(textsOf(<-heard), "\n"); !strings.Contains(got, "-> Postgres\n") || !strings.Contains(got, "-> unit, lint, and docs\n") || !strings.Contains(got, "-> no\n") || !strings.Contains(got, "-> a name") {
		t.Errorf("the agent hears %q", got)
	}

	id, heard = k.asks(t, c, 0, askOne)
	p = at("dumb", id)
	p.sees("Number, or words of your own [pass over; ! declines all]: ")
	p.types("2\n")
	p.sees(id + ": answered. The agent is notified.")
	if err := p.cmd.Wait(); err != nil || strings.Contains(p.all, "\x1b") {
		t.Errorf("a terminal that can show no form gets %q, %v", p.all, err)
	}
	<-heard

	// After a signal, the terminal has its old state.
	id, heard = k.asks(t, c, 0, `[{"text":"Another?"}]`)
	p = at("xterm", id)
	p.sees("Your own words: _")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.sees(id + ": not answered.")
	p.cmd.Wait()
	if out, err := k.run(t, "ask", "answer", id, "--decline"); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	<-heard
}
