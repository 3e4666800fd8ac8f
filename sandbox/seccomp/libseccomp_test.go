package seccomp

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

// Two compilers, one table: our program decides like that of libseccomp, for
// every number and at the borders of every argument.
//
// They differ on purpose in these cases:
//   - A number that is not in the table gives ENOSYS, as a kernel without the
//     call would; libseccomp has its default action there, and runc puts a stub
//     before it for the same reason (libcontainer/seccomp/patchbpf in runc).
//   - A number of x32 gives ENOSYS too; to libseccomp x32 is a foreign
//     architecture.
//   - libseccomp has rules against a default, and cannot say "all but these"
//     for one call and "only these" for another. So it compiles a program for
//     each default, and a call by argument is compared in the program with the
//     default of that call.
func TestFilterAgainstLibseccomp(t *testing.T) {
	testenv.Need(t, testenv.Libseccomp)
	other := buildLibseccomp(t)
	for _, a := range abis {
		for _, opt := range []Options{withLeaves, withWatch, withTrace, withNests} {
			t.Run(fmt.Sprintf("%s/%+v", a.name, opt), func(t *testing.T) {
				compareFilters(t, a, calls(a, opt), other)
			})
		}
	}
}

func compareFilters(t *testing.T, a abi, table map[uint32]call, other otherCompiler) {
	program := compile(a.audit, table)
	ours := newMachine(t, program)
	theirs := map[uint32]machine{} // by default action
	unknown := map[string]bool{}
	for _, action := range []uint32{actAllow, actEPERM, actENOSYS} {
		code := other.compile(t, a, table, action, unknown)
		theirs[action] = newMachine(t, code)
		t.Logf("default %#x: libseccomp writes %d instructions, we write %d", action, len(code), len(program))
	}
	names := map[uint32]string{}
	for _, c := range a.calls {
		names[c.number] = c.name
	}
	t.Logf("this libseccomp does not know: %s", strings.Join(slices.Sorted(maps.Keys(unknown)), " "))
	if len(unknown) > 40 {
		t.Errorf("it does not know %d of %d calls: a comparison of little worth", len(unknown), len(a.calls))
	}

	compared := 0
	for number := range uint32(601) {
		c, known := table[number]
		for action, m := range theirs {
			if known && unknown[names[number]] || len(c.clauses) > 0 && c.action != action {
				continue
			}
			for args := range corners(c) {
				got, want := ours.says(t, a.audit, number, args...), m.says(t, a.audit, number, args...)
				if !known {
					if want != action {
						t.Fatalf("libseccomp gives %#x for number %d, which it has no rule for", want, number)
					}
					want = actENOSYS
				}
				if got != want {
					t.Fatalf("call %d (%s) with %#x: ours gives %#x, libseccomp's %#x", number, names[number], args, got, want)
				}
				compared++
			}
		}
	}
	t.Logf("%d calls compared", compared)

	theirDefault := theirs[actENOSYS]
	for _, number := range []uint32{1 << 30, 1<<30 | 1, 1<<30 | 520, 1<<30 | 600} {
		got, want := ours.says(t, a.audit, number), theirDefault.says(t, a.audit, number)
		if a.audit == unix.AUDIT_ARCH_X86_64 && want == actKill {
			want = actENOSYS
		}
		if got != want {
			t.Errorf("number %#x: ours gives %#x, libseccomp's %#x", number, got, want)
		}
	}
	for _, number := range []uint32{601, 1023, 1 << 16, 1<<30 - 1, 1 << 31, 1<<32 - 1} {
		if got := ours.says(t, a.audit, number); got != actENOSYS {
			t.Errorf("number %#x: ours gives %#x", number, got)
		}
	}
	for _, audit := range []uint32{
		unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM,
		unix.AUDIT_ARCH_RISCV64, unix.AUDIT_ARCH_S390X, unix.AUDIT_ARCH_PPC64LE, 0, 0xffffffff,
	} {
		if audit == a.audit {
			continue
		}
		for _, number := range []uint32{0, 1, 11, 59, 221, 1 << 30, 0xffffffff} {
			if got, want := ours.says(t, audit, number), theirDefault.says(t, audit, number); got != want {
				t.Errorf("architecture %#x, number %d: ours gives %#x, libseccomp's %#x", audit, number, got, want)
			}
		}
	}
}

// corners returns the arguments at which the decision about a call may change: for each
// tested argument, each value that a test of the call names, its neighbours, single bits
// around it, and each of these with high bits set.
func corners(c call) func(yield func([]uint64) bool) {
	values := map[int][]uint64{}
	for _, cl := range c.clauses {
		for _, test := range cl.tests {
			is, mask := uint64(test.is), uint64(test.mask)
			low := []uint64{0, 0xffffffff, 0x7fffffff, is, (is + 1) & 0xffffffff, (is - 1) & 0xffffffff, is ^ 1<<31, mask, is | ^mask&0xffffffff}
			for bit := range 32 {
				if mask == 0 && bit < 8 || mask>>bit&1 == 1 {
					low = append(low, is^1<<bit)
				}
			}
			for _, v := range low {
				values[test.arg] = append(values[test.arg], v, v|1<<32, v|0xffffffff<<32)
			}
		}
	}
	args := slices.Sorted(maps.Keys(values))
	for _, arg := range args {
		slices.Sort(values[arg])
		values[arg] = slices.Compact(values[arg])
	}
	return func(yield func([]uint64) bool) {
		var fill func(at int, chosen [6]uint64) bool
		fill = func(at int, chosen [6]uint64) bool {
			if at == len(args) {
				return yield(chosen[:])
			}
			for i, v := range values[args[at]] {
				// If three arguments are tested together, only every third value of the
				// later ones is used, from a changing start, to keep the test quick.
				if at > 0 && len(args) > 2 && (i+int(chosen[args[at-1]]))%3 != 0 {
					continue
				}
				chosen[args[at]] = v
				if !fill(at+1, chosen) {
					return false
				}
			}
			return true
		}
		fill(0, [6]uint64{})
	}
}

// otherCompiler is the path of the program that is built from testdata/libseccomp.c.
type otherCompiler string

func buildLibseccomp(t *testing.T) otherCompiler {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "libseccomp")
	out, err := exec.CommandContext(t.Context(), "gcc", "-Wall", "-Werror", "-o", bin, "testdata/libseccomp.c", "-lseccomp").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	return otherCompiler(bin)
}

// compile makes libseccomp write a table with a default action: every call that is decided
// without its arguments, and the calls by argument that fall back to the default. Names for
// which it has no number are added to unknown.
func (o otherCompiler) compile(t *testing.T, a abi, table map[uint32]call, action uint32, unknown map[string]bool) []bpf.Instruction {
	t.Helper()
	var rules strings.Builder
	for _, name := range a.calls {
		c := table[name.number]
		switch {
		case len(c.clauses) == 0 && c.action != action:
			fmt.Fprintf(&rules, "%s %d %d 0\n", name.name, name.number, c.action)
		case len(c.clauses) > 0 && c.action == action:
			for _, cl := range c.clauses {
				fmt.Fprintf(&rules, "%s %d %d %d", name.name, name.number, cl.action, len(cl.tests))
				for _, test := range cl.tests {
					// Masked, because for libseccomp an argument is 64 bits wide.
					mask := test.mask
					if mask == 0 {
						mask = 0xffffffff
					}
					fmt.Fprintf(&rules, " %d %d %d", test.arg, mask, test.is)
				}
				rules.WriteByte('\n')
			}
		}
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[a.name]
	cmd := exec.CommandContext(t.Context(), string(o), arch, fmt.Sprint(action), "1")
	cmd.Stdin = strings.NewReader(rules.String())
	var code, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &code, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("libseccomp for %s on %s: %v: %s", a.name, runtime.GOARCH, err, &said)
	}
	for line := range strings.Lines(said.String()) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "unknown ")
		if !ok {
			t.Fatalf("libseccomp says %q", line)
		}
		unknown[name] = true
	}
	return disassemble(t, code.Bytes())
}
