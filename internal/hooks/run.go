package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"belljar.dev/internal/printable"
)

// Command describes a run of a hook. Argv contains an interpreter and the text of the hook,
// so that exactly the text that was checked is run. It must not run in a directory in which
// an agent writes: interpreters look for code there.
type Command struct {
	Argv    []string
	Script  string // text of the hook, for the caller that judges it
	Path    string // path from which the text was read, on the host
	Env     map[string]string
	Stdin   []byte
	Session string
	Tenant  string
	Timeout time.Duration
	Out     io.Writer // a writer that fails when its limit is reached
	Err     io.Writer
}

// Runner runs hooks somewhere. Run returns when the program and the processes that it
// started have ended (package hostexec documents the exception on the host). An error means
// that the program did not run to its end; context.DeadlineExceeded means that its time was
// up.
type Runner interface {
	Run(ctx context.Context, c Command) (code int, err error)
}

// run runs one hook with an event.
func (s *Set) run(ctx context.Context, h Hook, e Event) Ran {
	began := time.Now()
	r := Ran{Hook: h}
	var out, errs flood
	err := s.start(ctx, h, e, &out, &errs, &r.Code)
	r.Took = time.Since(began)
	r.Stdout, r.Stderr = out.text(), errs.text()
	switch {
	case out.over || errs.over:
		r.Failure = fmt.Sprintf("it wrote more than %d KiB", MaxOutput>>10)
	case errors.Is(err, context.DeadlineExceeded):
		r.Failure = fmt.Sprintf("it did not end within %s and was stopped", s.cfg.Timeout)
	case err != nil:
		r.Failure = err.Error()
	case r.Code == denyCode:
		r.Denied, r.Reason = true, plain(r.Stderr)
	case r.Code != 0:
		r.Failure = fmt.Sprintf("it ended with status %d: %s", r.Code, plain(r.Stderr))
	default:
		r.answer()
	}
	return r
}

// denyCode is the exit status by which a hook refuses. Its standard error is then the
// reason.
const denyCode = 2

// answer reads the answer of a hook on standard output: a JSON object. Other output has no
// effect.
func (r *Ran) answer() {
	text := bytes.TrimSpace([]byte(r.Stdout))
	if !bytes.HasPrefix(text, []byte("{")) {
		return
	}
	var said struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Note     string `json:"note"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		r.Failure = "its output begins as JSON but is not valid: " + err.Error()
		return
	}
	switch said.Decision {
	case "deny", "block":
		r.Denied, r.Reason = true, plain(said.Reason)
	case "", "allow", "approve", "continue": // the decision of the policy stands
	default:
		r.Failure = fmt.Sprintf("its decision is %.40q; want deny, or none", said.Decision)
	}
	r.Note = plain(said.Note)
}

// start runs a hook to its end.
func (s *Set) start(ctx context.Context, h Hook, e Event, out, errs *flood, code *int) error {
	if h.Why != "" {
		return errors.New(h.Why)
	}
	text, err := e.text()
	if err != nil {
		return err
	}
	when := e.Time.UTC().Format(time.RFC3339)
	args := []string{e.Name, e.Session, when, string(text)}
	c := Command{
		Path: h.Path, Stdin: text, Session: e.Session, Tenant: e.Tenant, Timeout: s.cfg.Timeout, Out: out, Err: errs,
		Env: map[string]string{"HOOK_EVENT": e.Name, "HOOK_SESSION": e.Session, "HOOK_TIME": when, "HOOK_JSON": string(text)},
	}
	runner := s.cfg.Box
	if h.OnHost {
		runner = s.cfg.Host
	}
	if c.Script, err = h.script(); err != nil {
		return err
	}
	c.Argv = append(append([]string{h.interpreter.program}, h.interpreter.inline...), c.Script)
	c.Argv = append(c.Argv, h.interpreter.after...)
	if h.interpreter.named {
		c.Argv = append(c.Argv, h.Name)
	}
	c.Argv = append(c.Argv, args...)
	if runner == nil {
		return errors.New("it has no box or host to run in")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	out.full, errs.full = cancel, cancel
	*code, err = runner.Run(ctx, c)
	return err
}

// Environ returns the variables of a command as execve(2) takes them, and HOOK_WORKSPACE
// with the path of the workspace as the hook sees it. The path is empty if the hook has no
// workspace.
func (c Command) Environ(workspace string) []string {
	all := []string{"HOOK_WORKSPACE=" + workspace}
	for name, value := range c.Env {
		all = append(all, name+"="+value)
	}
	return all
}

// flood keeps the beginning of what is written to it. If more is written than fits, Write
// fails, so that the rest of the output is not read. One goroutine writes to a flood, and
// it is read after the last write.
type flood struct {
	b    bytes.Buffer
	over bool
	full func() // ends the program, which may not notice that its output is no longer read
}

// Write accepts as many bytes as fit.
func (f *flood) Write(p []byte) (int, error) {
	room := MaxOutput - f.b.Len()
	if len(p) > room {
		f.over = true
		f.full()
		n, _ := f.b.Write(p[:room]) // a Buffer accepts all bytes
		return n, io.ErrShortWrite
	}
	return f.b.Write(p)
}

func (f *flood) text() string { return strings.ToValidUTF8(f.b.String(), "\ufffd") }

// plain returns a text as one line, without characters that control or reorder what shows
// it.
func plain(s string) string { return printable.Line(strings.TrimSpace(s), 500) }
