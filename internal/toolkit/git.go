package toolkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Where a box has this program, and by which command it is the helper.
const (
	Program       = "/opt/belljar/toolkit"
	HelperCommand = "toolkit-run"
)

const (
	// systemPath is where git is looked for: a box can write in none of them.
	systemPath = "/usr/local/bin:/usr/bin:/bin"
	// maxGit is how much git may print.
	maxGit = 64 << 20
	maxSay = 500
)

// InBox reports whether this process runs where the server starts helpers. On the
// host git would run outside a box.
func InBox() bool {
	self, err := os.Executable()
	return err == nil && self == Program
}

// Git starts git for [Host].
func Git(ctx context.Context, args, env []string, stdin io.Reader) (io.Reader, error) {
	program := ""
	for dir := range strings.SplitSeq(systemPath, ":") {
		if info, err := os.Stat(dir + "/" + args[0]); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			program = dir + "/" + args[0]
			break
		}
	}
	if program == "" {
		return nil, fmt.Errorf("%s: %w", args[0], exec.ErrNotFound)
	}
	cmd := exec.CommandContext(ctx, program, args[1:]...)
	cmd.Env = append(env, "PATH="+systemPath)
	cmd.Dir, cmd.Stdin = "/", stdin
	var out, said bounded
	out.most, said.most = maxGit, maxSay
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	if out.over {
		return nil, errors.New("git printed more than is read")
	}
	return &out, nil
}

// bounded keeps the first bytes.
type bounded struct {
	bytes.Buffer

	most int
	over bool
}

// Write takes all, and keeps what there is room for.
func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.most-b.Len())
	b.over = b.over || keep < len(p)
	b.Buffer.Write(p[:keep]) // never fails
	return len(p), nil
}
