package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Names in the guest's initial files.
const (
	orderFile  = "order.json"
	programDir = "test"
	modulesDir = "modules"
)

// archive writes a cpio archive of the "newc" kind, which the kernel unpacks as the guest's
// first root (kernel: Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	w     io.Writer
	inode int
	err   error
}

const (
	typeDir  = 0o040000
	typeFile = 0o100000
)

// add writes one entry. The first error is kept, and close returns it.
func (a *archive) add(name string, mode int, size int64, content io.Reader) {
	if a.err != nil {
		return
	}
	a.inode++
	// The fields are: magic, inode, mode, uid, gid, links, mtime, size, four device
	// numbers, length of the name with its NUL, checksum.
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	if _, a.err = io.WriteString(a.w, head+pad(int64(len(head)))); a.err != nil || content == nil {
		return
	}
	n, err := io.Copy(a.w, content)
	if err == nil && n != size {
		err = fmt.Errorf("pack %s: %d bytes, want %d", name, n, size)
	}
	if a.err = err; err == nil {
		_, a.err = io.WriteString(a.w, pad(size))
	}
}

// pad returns the padding of a size up to a multiple of four.
func pad(size int64) string { return "\x00\x00\x00"[:(4-size%4)%4] }

func (a *archive) dir(name string) { a.add(name, typeDir|0o755, 0, nil) }

func (a *archive) file(name, source string) {
	f, err := os.Open(source)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.add(name, typeFile|0o755, info.Size(), f)
}

func (a *archive) close() error {
	a.add("TRAILER!!!", 0, 0, nil)
	return a.err
}

// writeInitrd packs this program, the test, the kernel's modules and the
// order into a new file.
func writeInitrd(path string, k kernel, w order, program string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriter(f)
	a := &archive{w: buffered}
	for _, dir := range []string{"dev", "proc", programDir, modulesDir} {
		a.dir(dir)
	}
	a.file("init", "/proc/self/exe")
	if program != "" {
		a.file(filepath.Join(programDir, filepath.Base(program)), program)
	}
	for i, m := range k.modules {
		// The names are numbered, because the guest loads the modules in the order of their
		// names.
		a.file(fmt.Sprintf("%s/%02d-%s", modulesDir, i, filepath.Base(m)), m)
	}
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	a.add(orderFile, typeFile|0o644, int64(len(text)), bytes.NewReader(text))
	if err := a.close(); err != nil {
		return err
	}
	return buffered.Flush()
}
