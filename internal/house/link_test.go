package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// No code of the program calls a method by a name that is computed at run time. If one
// place does, the linker keeps every exported method of every type, which added 5 MB. There
// were three such places: text/template in the toolkit, the template of cobra's version,
// and protobuf before 1.36.12 with Go 1.26 (golang/protobuf issue 1704).
func TestNoMethodIsCalledByName(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "belljar"), "./cmd/belljar")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said[max(0, len(said)-2000):])
	}
	edges := 0
	for edge := range strings.Lines(string(said)) {
		if _, kept, _ := strings.Cut(edge, " -> "); strings.Contains(kept, "<ReflectMethod>") {
			t.Fatalf("the linker keeps %swant no such function; github.com/aarzilli/whydeadcode finds what needs it", edge)
		}
		edges++
	}
	if edges < 10_000 {
		t.Errorf("got %d edges from the linker, want many more", edges)
	}
}
