package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpack reads an archive as the kernel does: every header and every content
// begins at a multiple of four.
func unpack(t *testing.T, text []byte) map[string]string {
	t.Helper()
	const header = 110
	files := map[string]string{}
	for at := 0; ; {
		field := func(i int) int {
			n, err := strconv.ParseInt(string(text[at+6+8*i:at+14+8*i]), 16, 64)
			if err != nil {
				t.Fatalf("field %d of the header at %d: %v", i, at, err)
			}
			return int(n)
		}
		if magic := string(text[at : at+6]); magic != "070701" {
			t.Fatalf("magic at %d is %q, want 070701", at, magic)
		}
		size, length := field(6), field(11)
		if text[at+header+length-1] != 0 {
			t.Fatalf("the name at %d does not end in NUL", at)
		}
		name := string(text[at+header : at+header+length-1])
		if name == "TRAILER!!!" {
			return files
		}
		begin := (at + header + length + 3) &^ 3
		files[name] = string(text[begin : begin+size])
		at = (begin + size + 3) &^ 3
	}
}

func TestInitrd(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	k := kernel{modules: []string{write("z.ko", "12345"), write("a.ko.xz", "1234")}}
	want := order{Dir: "/x", Args: []string{"-test.v"}, User: guestUser, Groups: groupsV2, Delegated: true}
	initrd := filepath.Join(dir, "initrd")
	if err := writeInitrd(initrd, k, want, write("some.test", "#!\n")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(initrd)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, text)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if files["init"] != string(self) {
		t.Errorf("init has %d bytes, want this program's %d", len(files["init"]), len(self))
	}
	if files["modules/00-z.ko"] != "12345" || files["modules/01-a.ko.xz"] != "1234" || files["test/some.test"] != "#!\n" {
		t.Errorf("the modules or the test are not what was packed")
	}
	var got order
	if err := json.Unmarshal([]byte(files[orderFile]), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if err := writeInitrd(initrd, k, want, ""); !errors.Is(err, os.ErrExist) {
		t.Errorf("packing over a file gives %v, want an error", err)
	}
}

// A file that is shorter than its stated size would shift all files after it.
func TestInitrdShortFile(t *testing.T) {
	var out bytes.Buffer
	a := &archive{w: &out}
	a.add("x", typeFile, 5, bytes.NewReader([]byte("1234")))
	if err := a.close(); err == nil {
		t.Error("a file that lacks a byte was packed")
	}
}

func TestFindKernel(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{
		"boot/vmlinuz-6.1-x", "boot/config-6.1-x",
		"lib/modules/6.1-x/kernel/fs/overlayfs/overlay.ko", "lib/modules/6.1-x/kernel/drivers/virtio.ko.xz",
		"lib/modules/6.1-x/kernel/drivers/virtio_snd.ko", "lib/modules/6.1-x/kernel/fuse/Kconfig",
	} {
		path := filepath.Join(cache, "linux-6.1", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := findKernel(t.Context(), cache, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range k.modules {
		names = append(names, filepath.Base(m))
	}
	if want := []string{"virtio.ko.xz", "overlay.ko"}; !slices.Equal(names, want) || filepath.Base(k.image) != "vmlinuz-6.1-x" {
		t.Errorf("kernel %s with modules %q, want %q", k.image, names, want)
	}
	if _, err := findKernel(t.Context(), cache, "2.4"); err == nil {
		t.Error("an unknown series was found")
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-guests", "6.1/v1/root 6.12/v2/plain", "-tally", "-dir", "/d", "t", "-test.v"})
	if err != nil {
		t.Fatal(err)
	}
	want := []variant{{"6.1", "v1", "root"}, {"6.12", "v2", "plain"}}
	if !slices.Equal(o.guests, want) || !o.tally || filepath.Base(o.program) != "t" || !filepath.IsAbs(o.program) || !slices.Equal(o.args, []string{"-test.v"}) {
		t.Errorf("got %+v", o)
	}
	for _, bad := range [][]string{
		{"-tally"}, // no test
		{"-guests", "6.1/v2", "t"},
		{"-guests", "2.4/v1/root", "t"},
		{"-guests", "6.1/v3/root", "t"},
		{"-guests", "6.1/v2/nobody", "t"},
		{"-guests", "6.12/v1/root", "t"}, // this kernel has no control groups of version 1
		{"-dir", "/tmp/x", "t"},          // hidden by the guest's own /tmp
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("the command line %q was taken", bad)
		}
	}
}

func TestTally(t *testing.T) {
	const passed = "=== RUN   TestA\n=== RUN   TestA/x\n    a_test.go:1: fine\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\n=== RUN   TestS\n--- SKIP: TestS (0.00s)\n"
	const mixed = "=== RUN   TestM\n=== RUN   TestM/x\n    m_test.go:1: fine\n=== RUN   TestM/y\n    m_test.go:2: bad\n--- FAIL: TestM (0.00s)\n    --- PASS: TestM/x (0.00s)\n    --- FAIL: TestM/y (0.00s)\n"
	const mixedShown = "=== RUN   TestM\n=== RUN   TestM/y\n    m_test.go:2: bad\n--- FAIL: TestM (0.00s)\n    --- FAIL: TestM/y (0.00s)\n"
	const failed = "=== RUN   TestB\n=== RUN   TestB/x\n    b_test.go:1: bad\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/x (0.00s)\n"
	for _, tt := range []struct {
		name, text, want        string
		passed, failed, skipped int
		broken                  bool
	}{
		{"all passed", passed + "PASS\n", "", 2, 0, 1, false},
		{"one failed", passed + failed + "FAIL\n", failed + "FAIL\n", 2, 2, 1, true},
		{"one failed in the middle", failed + passed + "FAIL\n", failed + "FAIL\n", 2, 2, 1, true},
		{"some subtests failed", mixed + "FAIL\n", mixedShown + "FAIL\n", 1, 2, 0, true},
		{"left something", passed + "PASS\nleft: x\n", "PASS\nleft: x\n", 2, 0, 1, true},
		{"a panic", passed + "=== RUN   TestP\npanic: x", "=== RUN   TestP\npanic: x\n", 2, 0, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got strings.Builder
			ta := newTally(&got)
			for text := tt.text; text != ""; { // in odd pieces, as a pipe returns them
				n := min(7, len(text))
				_, _ = ta.Write([]byte(text[:n]))
				text = text[n:]
			}
			ta.end(tt.broken)
			if d := cmp.Diff(tt.want, got.String()); d != "" {
				t.Errorf("shown (-want +got):\n%s", d)
			}
			if ta.passed != tt.passed || ta.failed != tt.failed || ta.skipped != tt.skipped {
				t.Errorf("counted %d, %d, %d, want %d, %d, %d", ta.passed, ta.failed, ta.skipped, tt.passed, tt.failed, tt.skipped)
			}
		})
	}
}

// The endless output of a test must not fill the memory.
func TestTallyIsBounded(t *testing.T) {
	ta := newTally(io.Discard)
	for range 100 {
		_, _ = ta.Write(bytes.Repeat([]byte("x"), keptOutput/2))
		if ta.size > 2*keptOutput || len(ta.rest) > keptOutput {
			t.Fatalf("%d and %d bytes are kept, want about %d", ta.size, len(ta.rest), keptOutput)
		}
	}
}

func TestRequired(t *testing.T) {
	for want, fatal := range map[string]bool{"": false, "user": false, "all": true, "user, vm": true, "vms": false} {
		if got := required(want); got != fatal {
			t.Errorf("TEST_REQUIRE=%q: got %v, want %v", want, got, fatal)
		}
	}
}
