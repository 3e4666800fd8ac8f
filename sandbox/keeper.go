package sandbox

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"belljar.dev/internal/hostexec"
	"belljar.dev/sandbox/boxinit"
)

// keeper is the small process that removes our cgroups should we be killed.
type keeper struct {
	process *os.Process
	control *os.File
}

func (c *cgroups) startKeeper() error {
	dirs := c.dirs()
	if len(dirs) == 0 {
		return nil
	}
	p, control, err := startHelper(boxinit.KeeperName, nil)
	if err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	c.keeper = &keeper{p, control}
	if _, err := control.WriteString(strings.Join(dirs, "\n") + "\n"); err != nil {
		return fmt.Errorf("instruct keeper: %w", err)
	}
	return nil
}

// startHelper starts this program under another name, with a pipe as its
// descriptor 3. The helper leads a session of its own, so a signal to our process
// group does not reach it.
func startHelper(name string, sys *syscall.SysProcAttr) (*os.Process, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if sys == nil {
		sys = &syscall.SysProcAttr{}
	}
	sys.Setsid = true
	p, err := hostexec.Self(name, helperEnv, []*os.File{nil, nil, nil, r}, sys)
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return p, w, nil
}

// helperEnv keeps the runtime of a helper small: one thread for Go code.
var helperEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}

// close ends the keeper and waits for its end. The keeper may be nil.
func (k *keeper) close() error {
	if k == nil {
		return nil
	}
	k.control.Close()
	if _, err := k.process.Wait(); err != nil {
		return fmt.Errorf("wait for keeper: %w", err)
	}
	return nil
}
