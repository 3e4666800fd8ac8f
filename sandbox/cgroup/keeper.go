package cgroup

import (
	"fmt"
	"os"
	"strings"

	"belljar.dev/internal/hostexec"
	"belljar.dev/sandbox/boxinit"
)

// keeper is the small process that removes our cgroups if the supervisor is killed.
type keeper struct {
	process *os.Process
	control *os.File
}

// startKeeper starts the keeper of some directories. Without directories it starts
// nothing and returns nil.
func startKeeper(dirs []string) (*keeper, error) {
	if len(dirs) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	p, control, err := hostexec.Helper(boxinit.KeeperName, nil)
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	k := &keeper{p, control}
	if _, err := control.WriteString(strings.Join(dirs, "\n") + "\n"); err != nil {
		return k, fmt.Errorf("instruct keeper: %w", err)
	}
	return k, nil
}

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
