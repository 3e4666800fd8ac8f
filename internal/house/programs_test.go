package house

import (
	"go/ast"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// starts contains the functions and constants that start a program, by the path of their
// package. Cmd stands for a literal of the type exec.Cmd.
var starts = map[string][]string{
	"os/exec":                       {"Command", "CommandContext", "Cmd"},
	"os":                            {"StartProcess"},
	"syscall":                       {"ForkExec", "StartProcess", "Exec", "SYS_EXECVE", "SYS_EXECVEAT"},
	"golang.org/x/sys/unix":         {"Exec", "SYS_EXECVE", "SYS_EXECVEAT"},
	"belljar.dev/internal/hostexec": {"Run", "Self", "Helper", "Successor"},
	"belljar.dev/sandbox/boxinit":   {"Spawn"},
}

// uses returns the names in a file, as path.Name, that start a program.
func uses(t *testing.T, name string) (all []string) {
	t.Helper()
	file := parsed(t, token.NewFileSet(), filepath.Join(root, name), nil)
	imports := make(map[string]string) // path by local name
	for _, spec := range file.Imports {
		full := strings.Trim(spec.Path.Value, `"`)
		local := path.Base(full)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." && starts[full] != nil {
			t.Errorf("%s: imports %s by a dot, so that nobody sees what starts a program", name, full)
		}
		imports[local] = full
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && slices.Contains(starts[imports[x.Name]], sel.Sel.Name) {
			all = append(all, imports[x.Name]+"."+sel.Sel.Name)
		}
		return true
	})
	return all
}

// programRow matches a row of the table in docs/architecture.md that lists the files which
// start programs: | [file](../file) | ...
var programRow = regexp.MustCompile(`(?m)^\| \[[^]]+\]\(\.\./([^)]+)\) \|`)

// TestProgramsOutsideBoxesAreListed checks that docs/architecture.md has a row for each
// file that starts a program, in whatever way, and for no other file. Such a file must use
// internal/hostexec. Exceptions are internal/hostexec itself, the files that start boxes,
// and code that is not installed or runs in a box.
func TestProgramsOutsideBoxesAreListed(t *testing.T) {
	_, section, ok := strings.Cut(read(t, "docs/architecture.md"), "\n## Programs that run outside a box\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section about programs that run outside a box")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, found []string
	for _, m := range programRow.FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	for _, name := range sources(t) {
		dir := filepath.Dir(name)
		switch {
		case dir == "internal/testenv", dir == "internal/vmtest", dir == "internal/mcptest/upstreams", strings.HasSuffix(dir, "/imagetest"):
			continue // these packages are only for tests
		case dir == "internal/hostexec", name == "sandbox/seccomp/exec.go", name == "sandbox/execview_linux.go":
			continue // hostexec itself, and two files that only contain the numbers of the system calls
		}
		names := uses(t, name)
		if len(names) == 0 {
			continue
		}
		switch {
		case dir == "sandbox/escape", dir == "sandbox/boxinit", name == "sandbox/spawn_linux.go", name == "internal/toolkit/git.go":
			// escape is the attacker, boxinit and spawn_linux.go start a box, git.go runs
			// in a box.
		default:
			for _, used := range names {
				if !strings.HasPrefix(used, "belljar.dev/internal/hostexec.") {
					t.Errorf("%s: %s starts a program; internal/hostexec does that", name, used)
				}
			}
		}
		if dir == "sandbox/escape" || dir == "sandbox/boxinit" {
			name = dir
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(listed)
	slices.Sort(found)
	if diff := cmp.Diff(found, listed); diff != "" {
		t.Errorf("what starts programs (-) against the rows of docs/architecture.md (+):\n%s", diff)
	}
}
