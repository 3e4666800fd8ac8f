package boxinit_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"

	"belljar.dev/sandbox/boxinit"
)

// TestImage checks that the page of an init is a program of one part, whose table maps the
// parts of this program as debug/elf finds them.
func TestImage(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	image, err := boxinit.Image(exe)
	if err != nil {
		t.Fatal(err)
	}
	page, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	own, err := elf.NewFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if page.Type != elf.ET_EXEC || page.Machine != own.Machine || page.Class != own.Class || page.Data != own.Data || len(page.Progs) != 2 {
		t.Fatalf("%+v", page)
	}
	code, stack := page.Progs[0], page.Progs[1]
	if code.Type != elf.PT_LOAD || code.Flags != elf.PF_R|elf.PF_X || page.Entry <= code.Vaddr || page.Entry >= code.Vaddr+code.Filesz || code.Filesz != uint64(len(image)) {
		t.Errorf("the code: %+v, begins at %#x", code, page.Entry)
	}
	if stack.Type != elf.PT_GNU_STACK || stack.Flags != elf.PF_R|elf.PF_W {
		t.Errorf("the stack: %+v", stack)
	}
	const table = 0x800
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(image[table+8*i:]) }
	calls := int(word(0))
	for _, p := range own.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		found := false
		for i := range calls {
			at, size, prot, offset := word(1+6*i), word(2+6*i), word(3+6*i), word(6+6*i)
			same := offset == p.Off&^uint64(os.Getpagesize()-1) && size >= p.Filesz && (own.Type == elf.ET_DYN || at <= p.Vaddr && at+size >= p.Vaddr+p.Filesz)
			wants := prot&1 != 0 == (p.Flags&elf.PF_R != 0) && prot&2 != 0 == (p.Flags&elf.PF_W != 0) && prot&4 != 0 == (p.Flags&elf.PF_X != 0)
			found = found || same && wants
		}
		if !found {
			t.Errorf("nothing maps %+v", p.ProgHeader)
		}
	}
	if _, err := boxinit.Image(temporary(t, image[:40])); err == nil {
		t.Error("a file that is cut off is taken for a program")
	}
	image[4]++ // now a program of 32 bits
	if _, err := boxinit.Image(temporary(t, image)); err == nil {
		t.Error("a program of another class is taken")
	}
}

func temporary(t *testing.T, text []byte) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		_, err = f.Write(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
