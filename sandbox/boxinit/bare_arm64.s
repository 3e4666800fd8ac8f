#include "go_asm.h"
#include "textflag.h"

#define SYS_close 57
#define SYS_mmap 222
#define SYS_exit_group 94
#define SYS_clone3 435

// func loader()
// Runs at a fixed address, alone in its file: see Image. It must not refer to
// any symbol.
TEXT ·loader(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	$0x100800, R19 // loaderTable
	MOVD	(R19), R20     // how many mappings
	ADD	$8, R19
next:
	MOVD	0(R19), R0
	MOVD	8(R19), R1
	MOVD	16(R19), R2
	MOVD	24(R19), R3
	MOVD	32(R19), R4
	MOVD	40(R19), R5
	MOVD	$SYS_mmap, R8
	SVC
	CMN	$4095, R0
	BCS	fail
	ADD	$48, R19
	SUB	$1, R20
	CBNZ	R20, next
	MOVD	0(R19), R0 // what is to be zeroed
	MOVD	8(R19), R1
	CBZ	R1, zeroed
zero:
	MOVB	ZR, (R0)
	ADD	$1, R0
	SUB	$1, R1
	CBNZ	R1, zero
zeroed:
	MOVD	16(R19), R20 // entry
	MOVD	$4, R0       // program
	MOVD	$SYS_close, R8
	SVC
	JMP	(R20)
fail:
	MOVD	$120, R0
	MOVD	$SYS_exit_group, R8
	SVC
	BRK

// func entry()
// The stack is our own, see bareLeave; a g of zeros has all the stack that Go
// code asks for.
TEXT ·entry(SB), NOSPLIT|NOFRAME|TOPFRAME, $0-0
	MOVD	RSP, R0
	MOVD	R0, ·bare+bareMemory_began(SB)
	MOVD	$·bare+bareMemory_g(SB), R0 // the stack ends where g begins
	MOVD	R0, RSP
	MOVD	$·bare+bareMemory_g(SB), g
	CALL	·bareMain(SB)
	BRK

// func cloneChild(number, a1, a2 uintptr) uintptr
// The child begins on the stack that it was given, and never returns.
TEXT ·cloneChild(SB), NOSPLIT, $0-32
	MOVD	number+0(FP), R8
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	SVC
	CBNZ	R0, parent
	CALL	·bareChild(SB)
	BRK
parent:
	MOVD	R0, ret+24(FP)
	RET

DATA ·loaderAddress(SB)/8, $·loader(SB)
GLOBL ·loaderAddress(SB), RODATA, $8
DATA ·entryAddress(SB)/8, $·entry(SB)
GLOBL ·entryAddress(SB), RODATA, $8

// func spawn(args *cloneArgs, calls *SpawnCall, failed *uint64) uintptr
// The child has our memory and our stack, and we stand still until it has
// become another program (CLONE_VFORK). So it keeps to registers.
TEXT ·spawn(SB), NOSPLIT, $0-32
	MOVD	args+0(FP), R0
	MOVD	$88, R1 // as of Linux 5.7, CLONE_ARGS_SIZE_VER2
	MOVD	calls+8(FP), R19
	MOVD	failed+16(FP), R20
	MOVD	$SYS_clone3, R8
	SVC
	CBNZ	R0, parent
call:
	MOVD	0(R19), R8
	MOVD	8(R19), R0
	MOVD	16(R19), R1
	MOVD	24(R19), R2
	MOVD	32(R19), R3
	MOVD	ZR, R4
	SVC
	ADD	$40, R19
	CMN	$4095, R0
	BCC	call
	MOVD	R0, (R20)
	MOVD	$127, R0
	MOVD	$SYS_exit_group, R8
	SVC
	BRK
parent:
	MOVD	R0, ret+24(FP)
	RET
