package boxinit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"
)

// Addresses of the loader: it is below any program, and above the memory that the kernel
// keeps free (vm.mmap_min_addr). The assembly knows loaderTable.
const (
	loaderBase  = 0x100000
	loaderCode  = 0x400
	loaderTable = 0x800
	loaderSize  = 0x1000
	// programBase is where a position-independent program is mapped.
	programBase = 0x400000
)

// Image returns a program of one page that maps exe, which must be the running program and
// its descriptor 4, and jumps to entry. The kernel itself would begin at the start of the
// Go runtime. Nothing is copied: all inits and the supervisor share the pages of one file.
//
// The page contains an ELF header (elf(5)), the code of loader, and its table: the
// arguments of mmap(2) for every part of the program, the memory after its data that must
// be zeroed, and the address to jump to.
func Image(exe *os.File) ([]byte, error) {
	head, parts, err := readParts(exe)
	if err != nil {
		return nil, fmt.Errorf("read own program: %w", err)
	}
	shift, err := loadShift(head)
	if err != nil {
		return nil, err
	}
	const mapPrivate, mapFixed, mapAnonymous = 0x02, 0x10, 0x20
	page := uint64(os.Getpagesize())
	down := func(n uint64) uint64 { return n &^ (page - 1) }
	up := func(n uint64) uint64 { return down(n + page - 1) }
	var maps, zero []uint64
	for _, p := range parts {
		if p.Type != partLoad {
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

// header is the header of a program, and part is the header of one of its parts (elf(5)).
type header struct {
	Ident                                              [16]byte
	Type, Machine                                      uint16
	Version                                            uint32
	Entry, Phoff, Shoff                                uint64
	Flags                                              uint32
	Ehsize, Phentsize, Phnum, Shentsize, Shnum, Strndx uint16
}

type part struct {
	Type, Flags                             uint32
	Off, Vaddr, Paddr, Filesz, Memsz, Align uint64
}

const (
	headerSize, partSize = 64, 56

	typeExec, typeDyn      = 2, 3 // types of programs: with fixed addresses, and with any
	partLoad, partGNUStack = 1, 0x6474e551

	partExec, partWrite, partRead = 1, 2, 4
)

// identOf64 is the beginning of programs of 64 bits whose numbers have the lowest byte
// first.
var identOf64 = [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}

// readParts reads the header of a program and the headers of its parts. Package debug/elf
// would also read the sections, and would make the binary larger by the code that
// decompresses them.
func readParts(exe io.ReaderAt) (head header, parts []part, err error) {
	read := func(at, size uint64, into any) error {
		return binary.Read(io.NewSectionReader(exe, int64(at), int64(size)), binary.LittleEndian, into)
	}
	switch err := read(0, headerSize, &head); {
	case err != nil:
		return head, nil, err
	case [7]byte(head.Ident[:7]) != [7]byte(identOf64[:7]) || head.Phentsize != partSize:
		return head, nil, errors.New("it is not an ELF program of 64 bits")
	}
	parts = make([]part, head.Phnum)
	return head, parts, read(head.Phoff, uint64(head.Phnum)*partSize, parts)
}

// protection returns the accesses that mmap(2) must allow for the flags of a part.
func protection(flags uint32) uint64 {
	const read, write, exec = 1, 2, 4
	prot := uint64(0)
	for _, bit := range [][2]uint32{{partRead, read}, {partWrite, write}, {partExec, exec}} {
		if flags&bit[0] != 0 {
			prot |= uint64(bit[1])
		}
	}
	return prot
}

// shifts are the distances between a program's addresses in memory and those in its file:
// as it runs now, and as the loader maps it.
type shifts struct{ running, mapped uint64 }

func loadShift(head header) (shifts, error) {
	if head.Type != typeDyn {
		return shifts{}, nil
	}
	aux, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return shifts{}, fmt.Errorf("read own program: %w", err)
	}
	const atEntry = 9 // getauxval(3), AT_ENTRY
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.NativeEndian.Uint64(aux) == atEntry {
			return shifts{binary.NativeEndian.Uint64(aux[8:]) - head.Entry, programBase}, nil
		}
	}
	return shifts{}, fmt.Errorf("read own program: where it begins: %w", io.ErrUnexpectedEOF)
}

// loaderHeader returns a page with the header of a program that has one part, and a stack
// that cannot be executed.
func loaderHeader() []byte {
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	parts := []part{
		{
			Type: partLoad, Flags: partRead | partExec, Vaddr: loaderBase, Paddr: loaderBase,
			Filesz: loaderSize, Memsz: loaderSize, Align: 0x10000, // the largest page of either architecture
		},
		{Type: partGNUStack, Flags: partRead | partWrite},
	}
	image := make([]byte, loaderSize)
	_, _ = binary.Encode(image, binary.LittleEndian, header{
		Ident: identOf64, Type: typeExec, Machine: machine, Version: 1, Entry: loaderBase + loaderCode,
		Phoff: headerSize, Ehsize: headerSize, Phentsize: partSize, Phnum: uint16(len(parts)),
	})
	_, _ = binary.Encode(image[headerSize:], binary.LittleEndian, parts) // both fit
	return image
}
