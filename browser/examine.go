package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// Examine checks what the pool needs of this host: that there is a Chrome, that it starts
// in a box, with its own sandbox and if necessary without it, and that it draws. The grant
// must be of a profile with browser: degraded, so that both can be tried. program is
// Config.Program.
func Examine(ctx context.Context, s *sandbox.Supervisor, g policies.Grant, program string) []sandbox.Check {
	found := sandbox.Check{Name: "Chromium"}
	own := sandbox.Check{Name: "its own sandbox"}
	draws := sandbox.Check{Name: "draws a page"}
	p, err := New(Config{Supervisor: s, Program: program, Slots: 1})
	if err == nil {
		defer p.Close()
		program, err = p.find()
	}
	if err != nil {
		found.Detail, found.Degraded = err.Error(), withoutChrome
		found.Mend = Install
		return []sandbox.Check{found}
	}
	found.OK, found.Detail = true, program
	nested, err := g.ForBrowser(policies.BrowserBox{Nested: true, Offline: true})
	if err != nil {
		found.OK, found.Detail = false, err.Error()
		return []sandbox.Check{found}
	}
	ch, err := startChrome(ctx, s, "browser-doctor", program, nested)
	if err == nil {
		own.OK, own.Detail = insulated(ctx, ch)
		found.Detail += ", " + ch.version
		if note, err := tried(ch.version); err == nil && note != "" {
			found.Detail += " (" + note + ")"
		}
		ch.close()
	} else if !errors.Is(err, errNotNested) {
		found.OK, found.Detail, found.Degraded, found.Mend = false, program+": "+firstLine(err), withoutChrome, Install
		return []sandbox.Check{found}
	} else {
		own.Detail = errNotNested.Error() + ", and the sandbox of Chromium consists of namespaces"
		own.Degraded = "a profile with browser: sandboxed has no browser here; one with browser: degraded has a browser, which only the walls of its box isolate"
		own.Mend = "let the box make user namespaces: look at security modules that restrict them (sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"
	}
	start := time.Now()
	_, err = p.Draw(ctx, g, Drawing{SVG: []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>`)})
	if err == nil {
		draws.OK, draws.Detail = true, fmt.Sprintf("after %d ms, which include the start", time.Since(start).Milliseconds())
	} else {
		draws.Detail = firstLine(err)
		draws.Degraded = "no page can be loaded in a browser on this host"
	}
	return []sandbox.Check{found, own, draws}
}

// withoutChrome says what a host without Chrome lacks.
const withoutChrome = "pages are read as the server sends them, without what their scripts would write; SVG images are not drawn"

func firstLine(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*Error](err); ok && e.Err != nil {
		text = e.Err.Error()
	}
	return clip(text, 400)
}

// insulated reports whether the renderers of a Chrome are behind walls of its own: a user
// namespace other than the box's, and one more system call filter. If the renderers cannot
// be seen, it trusts Chrome, which was started with its sandbox.
func insulated(ctx context.Context, ch *chrome) (bool, string) {
	t, err := newTab(ctx, ch) // so that a renderer runs
	if err != nil {
		return false, firstLine(err)
	}
	defer ch.dispose(ctx, t)
	r, err := ch.box.Run(ctx, sandbox.Cmd{Grant: ch.grant, Timeout: 10 * time.Second, Shell: `for p in /proc/[0-9]*; do
  case "$(tr '\0' ' ' 2>/dev/null <$p/cmdline)" in bash\ *) continue ;; *--type=renderer*) ;; *) continue ;; esac
  # A namespace that is not ours cannot be looked at either.
  if [ "$(readlink $p/ns/user)" != "$(readlink /proc/self/ns/user)" ]; then u=other; else u=same; fi
  echo "$u $(grep -c . $p/status) $(sed -n 's/^Seccomp_filters:\t*//p' $p/status) $(sed -n 's/^Seccomp_filters:\t*//p' /proc/self/status)"
done`})
	if err != nil {
		return false, firstLine(err)
	}
	cut, err := r.Output.Cut(4 << 10)
	if err != nil {
		return false, firstLine(err)
	}
	if len(cut.Text) == 0 {
		// If the host has no writable cgroup v2, each command has a pid namespace of its
		// own.
		return true, "Chromium starts, and without its sandbox it would not; on this host a command does not see the processes of another one, so the renderers were not examined"
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(cut.Text)), "\n") {
		var user string
		var fields, filters, ours int
		if n, _ := fmt.Sscanf(line, "%s %d %d %d", &user, &fields, &filters, &ours); n < 4 || user != "other" || filters <= ours {
			return false, "a renderer is not isolated: " + clip(line, 100)
		}
	}
	return true, "renderers have namespaces of their own and at least one system call filter more than the box"
}
