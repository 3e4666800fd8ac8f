package boxinit

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"
)

// Where the loader lies in memory: below any program, above what the kernel
// keeps free (vm.mmap_min_addr). The assembly knows loaderTable.
const (
	loaderBase  = 0x100000
	loaderCode  = 0x400
	loaderTable = 0x800
	loaderSize  = 0x1000
	// programBase is where a position-independent program goes.
	programBase = 0x400000
)

// Image is a program of one page that maps exe, which must be the running
// program and is its descriptor 4, and jumps to entry: the kernel would begin
// at the start of the Go runtime. Nothing is copied: all inits and the
// supervisor share the pages of one file.
//
// The page holds an ELF header (elf(5)), the code of loader, and its table: the
// arguments of mmap(2) for every part of the program, what is to be zeroed
// behind its data, and where to go.
func Image(exe *os.File) ([]byte, error) {
	f, err := elf.NewFile(exe)
	if err != nil {
		return nil, fmt.Errorf("read own program: %w", err)
	}
	shift, err := loadShift(f)
	if err != nil {
		return nil, err
	}
	const mapPrivate, mapFixed, mapAnonymous = 0x02, 0x10, 0x20
	page := uint64(os.Getpagesize())
	down := func(n uint64) uint64 { return n &^ (page - 1) }
	up := func(n uint64) uint64 { return down(n + page - 1) }
	var maps, zero []uint64
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		at := p.Vaddr + shift.mapped
		prot := protection(p.Flags)
		end := at + p.Filesz
		if p.Filesz > 0 {
			maps = append(maps, down(at), end-down(at), prot, mapPrivate|mapFixed, program, down(p.Off))
		}
		if p.Memsz == p.Filesz {
			continue
		}
		if zero != nil {
			return nil, errors.New("read own program: two parts contain zeros")
		}
		// The rest of the last page of the file, then pages without a file.
		tail := min(up(end), at+p.Memsz)
		zero = []uint64{end, tail - end}
		if at+p.Memsz > tail {
			maps = append(maps, tail, at+p.Memsz-tail, prot, mapPrivate|mapFixed|mapAnonymous, noFile64, 0)
		}
	}
	if zero == nil {
		zero = []uint64{0, 0}
	}
	table := append([]uint64{uint64(len(maps) / 6)}, maps...)
	table = append(table, zero...)
	table = append(table, uint64(entryAddress)-shift.running+shift.mapped)
	if len(table)*8 > loaderSize-loaderTable {
		return nil, errors.New("read own program: it has too many parts")
	}
	image := loaderHeader()
	code := *(**byte)(unsafe.Pointer(&loaderAddress))
	copy(image[loaderCode:loaderTable], unsafe.Slice(code, loaderTable-loaderCode))
	for i, w := range table {
		binary.NativeEndian.PutUint64(image[loaderTable+8*i:], w)
	}
	return image, nil
}

const noFile64 = ^uint64(0)

func protection(f elf.ProgFlag) uint64 {
	const read, write, exec = 1, 2, 4
	prot := uint64(0)
	for flag, bit := range map[elf.ProgFlag]uint64{elf.PF_R: read, elf.PF_W: write, elf.PF_X: exec} {
		if f&flag != 0 {
			prot |= bit
		}
	}
	return prot
}

// shifts are how far a program lies from where its file says: as it runs now,
// and as the loader maps it.
type shifts struct{ running, mapped uint64 }

func loadShift(f *elf.File) (shifts, error) {
	if f.Type != elf.ET_DYN {
		return shifts{}, nil
	}
	aux, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return shifts{}, fmt.Errorf("read own program: %w", err)
	}
	const atEntry = 9 // getauxval(3), AT_ENTRY
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.NativeEndian.Uint64(aux) == atEntry {
			return shifts{binary.NativeEndian.Uint64(aux[8:]) - f.Entry, programBase}, nil
		}
	}
	return shifts{}, fmt.Errorf("read own program: where it begins: %w", io.ErrUnexpectedEOF)
}

// loaderHeader is a page with the header of a program that has one part, and
// a stack that cannot be executed.
func loaderHeader() []byte {
	image := make([]byte, loaderSize)
	const ehsize, phentsize = 64, 56
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	copy(image, elf.ELFMAG)
	image[elf.EI_CLASS], image[elf.EI_DATA], image[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	le := binary.LittleEndian
	le.PutUint16(image[16:], uint16(elf.ET_EXEC))
	le.PutUint16(image[18:], uint16(machine))
	le.PutUint32(image[20:], uint32(elf.EV_CURRENT))
	le.PutUint64(image[24:], loaderBase+loaderCode)
	le.PutUint64(image[32:], ehsize) // e_phoff
	le.PutUint16(image[52:], ehsize)
	le.PutUint16(image[54:], phentsize)
	le.PutUint16(image[56:], 2) // e_phnum
	load := image[ehsize:]
	le.PutUint32(load, uint32(elf.PT_LOAD))
	le.PutUint32(load[4:], uint32(elf.PF_R|elf.PF_X))
	le.PutUint64(load[16:], loaderBase)
	le.PutUint64(load[24:], loaderBase)
	le.PutUint64(load[32:], loaderSize)
	le.PutUint64(load[40:], loaderSize)
	le.PutUint64(load[48:], 0x10000) // the largest page of either architecture
	stack := load[phentsize:]
	le.PutUint32(stack, uint32(elf.PT_GNU_STACK))
	le.PutUint32(stack[4:], uint32(elf.PF_R|elf.PF_W))
	return image
}
