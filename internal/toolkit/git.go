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

// The path of this program in a box, and the command that starts it as the helper.
const (
	Program       = "/opt/belljar/toolkit"
	HelperCommand = "toolkit-run"
)

const (
	// systemPath is the directories in which git is searched; a box cannot write in them.
	systemPath = "/usr/local/bin:/usr/bin:/bin"
	// maxGit is the longest output of git, in bytes.
	maxGit = 64 << 20
	maxSay = 500
)

// InBox reports whether this process runs at the helper's path in a box. On the host, git
// would run outside of a box.
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

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer

	most int
	over bool
}

// Write accepts all bytes, and keeps those that fit.
func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.most-b.Len())
	b.over = b.over || keep < len(p)
	b.Buffer.Write(p[:keep]) // never fails
	return len(p), nil
}
