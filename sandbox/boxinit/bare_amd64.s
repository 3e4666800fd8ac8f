#include "go_asm.h"
#include "textflag.h"

#define SYS_close 3
#define SYS_mmap 9
#define SYS_arch_prctl 158
#define SYS_exit_group 231
#define SYS_clone3 435
#define ARCH_SET_FS 0x1002

// func loader()
// Runs at a fixed address, alone in its file: see Image. It must not refer to
// any symbol.
TEXT ·loader(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ	$0x100800, BX // loaderTable
	MOVQ	0(BX), R12    // how many mappings
	ADDQ	$8, BX
next:
	MOVQ	0(BX), DI
	MOVQ	8(BX), SI
	MOVQ	16(BX), DX
	MOVQ	24(BX), R10
	MOVQ	32(BX), R8
	MOVQ	40(BX), R9
	MOVQ	$SYS_mmap, AX
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JCC	fail
	ADDQ	$48, BX
	DECQ	R12
	JNE	next
	MOVQ	0(BX), DI // what is to be zeroed
	MOVQ	8(BX), CX
	XORL	AX, AX
	CLD
	REP
	STOSB
	MOVQ	16(BX), R12 // entry
	MOVQ	$4, DI      // program
	MOVQ	$SYS_close, AX
	SYSCALL
	JMP	R12
fail:
	MOVQ	$120, DI
	MOVQ	$SYS_exit_group, AX
	SYSCALL
	INT	$3

// func entry()
// The stack is our own, see bareLeave; Go code finds its g by way of the thread
// pointer, and a g of zeros has all the stack that it asks for.
TEXT ·entry(SB), NOSPLIT|NOFRAME|TOPFRAME, $0-0
	MOVQ	SP, ·bare+bareMemory_began(SB)
	LEAQ	·bare+bareMemory_g(SB), SP // the stack ends where g begins
	LEAQ	·bare+(bareMemory_tls+2048)(SB), SI // its end: the variables of a program lie below
	MOVQ	$ARCH_SET_FS, DI
	MOVQ	$SYS_arch_prctl, AX
	SYSCALL
	LEAQ	·bare+bareMemory_g(SB), R14
	MOVQ	TLS, CX
	MOVQ	R14, 0(CX)(TLS*1)
	ANDQ	$~15, SP
	XORPS	X15, X15
	CALL	·bareMain(SB)
	INT	$3

// func cloneChild(number, a1, a2 uintptr) uintptr
// The child begins on the stack that it was given, and never returns.
TEXT ·cloneChild(SB), NOSPLIT, $0-32
	MOVQ	number+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JNE	parent
	CALL	·bareChild(SB)
	INT	$3
parent:
	MOVQ	AX, ret+24(FP)
	RET

DATA ·loaderAddress(SB)/8, $·loader(SB)
GLOBL ·loaderAddress(SB), RODATA, $8
DATA ·entryAddress(SB)/8, $·entry(SB)
GLOBL ·entryAddress(SB), RODATA, $8

// func spawn(args *cloneArgs, calls *SpawnCall, failed *uint64) uintptr
// The child has our memory and our stack, and we stand still until it has
// become another program (CLONE_VFORK). So it keeps to registers.
TEXT ·spawn(SB), NOSPLIT, $0-32
	MOVQ	args+0(FP), DI
	MOVQ	$88, SI // as of Linux 5.7, CLONE_ARGS_SIZE_VER2
	MOVQ	calls+8(FP), BX
	MOVQ	failed+16(FP), R12
	MOVQ	$SYS_clone3, AX
	SYSCALL
	TESTQ	AX, AX
	JNE	parent
call:
	MOVQ	0(BX), AX
	MOVQ	8(BX), DI
	MOVQ	16(BX), SI
	MOVQ	24(BX), DX
	MOVQ	32(BX), R10
	XORL	R8, R8
	SYSCALL
	ADDQ	$40, BX
	CMPQ	AX, $0xfffffffffffff001
	JCS	call
	MOVQ	AX, (R12)
	MOVQ	$127, DI
	MOVQ	$SYS_exit_group, AX
	SYSCALL
	INT	$3
parent:
	MOVQ	AX, ret+24(FP)
	RET
