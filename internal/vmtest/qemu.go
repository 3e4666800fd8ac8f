package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// machine is the virtual machine of one run.
type machine struct {
	qemu      string
	virtiofsd string
	kernel    kernel
	accel     string
	memory    int       // MiB
	out       io.Writer // receives the output of the test
}

// find finds the programs that the machine needs.
func (m *machine) find() error {
	if os.Geteuid() != 0 {
		return &lackError{"virtiofsd shares the root file system only as root"}
	}
	var err error
	if m.qemu, err = exec.LookPath("qemu-system-x86_64"); err != nil {
		return &lackError{"no qemu-system-x86_64; install the package qemu-system-x86"}
	}
	for _, path := range []string{"/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd"} {
		if _, err := os.Stat(path); err == nil {
			m.virtiofsd = path
			return nil
		}
	}
	return &lackError{"no virtiofsd; install the package qemu-system-common or virtiofsd"}
}

// How qemu runs the guest's processor: on the host's own processor, or by emulation.
const (
	accelKVM = "kvm"
	accelTCG = "tcg"
)

// patience returns how many times slower the guest is than this host.
func (m *machine) patience() int {
	if m.accel == accelKVM {
		return 1
	}
	return 20
}

// choose finds the kernel of a guest, and chooses how its processor is run.
func (m *machine) choose(ctx context.Context, o options, v variant) (err error) {
	if m.kernel, err = findKernel(ctx, o.cache, v.kernel); err != nil {
		return err
	}
	return m.chooseAccel(ctx, o.cache)
}

// chooseAccel chooses KVM if it works. It is not enough that /dev/kvm exists: some hosts
// emulate too few instructions for a stock kernel, which then hangs. So a guest that does
// nothing is started first. The result is stored until this host boots again.
func (m *machine) chooseAccel(ctx context.Context, cache string) error {
	const patience = 10 * time.Second
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	known := filepath.Join(cache, "accel-"+strings.TrimSpace(string(boot)))
	if text, err := os.ReadFile(known); err == nil {
		m.accel = string(text)
		return nil
	}
	m.accel = accelTCG
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.Close()
		probe := *m
		probe.accel = accelKVM
		short, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if code, err := probe.boot(short, order{Nothing: true}, ""); err == nil && code == 0 {
			m.accel = accelKVM
		}
	}
	return os.WriteFile(known, []byte(m.accel), 0o600)
}

// boot starts the guest with an order and returns the exit status of the program that the
// guest ran. The guest's first serial line goes to m.out.
func (m *machine) boot(ctx context.Context, w order, program string) (int, error) {
	tmp, err := os.MkdirTemp("", "vmtest-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	at := func(name string) string { return filepath.Join(tmp, name) }
	if err := writeInitrd(at("initrd"), m.kernel, w, program); err != nil {
		return 0, fmt.Errorf("pack the guest's files: %w", err)
	}
	disk, err := os.OpenFile(at("disk"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(disk.Truncate(4<<30), disk.Close()) // a sparse file
	}
	if err != nil {
		return 0, err
	}
	share, err := m.share(ctx, at("share"))
	if err != nil {
		return 0, err
	}
	defer share()
	cmd := exec.CommandContext(ctx, m.qemu, m.line(at,
		// virtiofs needs memory that both processes map.
		"-object", fmt.Sprintf("memory-backend-memfd,id=mem,size=%dM,share=on", m.memory), "-numa", "node,memdev=mem",
		"-chardev", "socket,id=share,path="+at("share"), "-device", "vhost-user-fs-pci,chardev=share,tag=host",
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,file="+at("disk"), "-device", "virtio-blk-pci,drive=disk",
	)...)
	if !w.Nothing {
		cmd.Stdout, cmd.Stderr = m.out, os.Stderr
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, fmt.Errorf("run the guest: %w", err)
	}
	text, err := os.ReadFile(at("status"))
	if err != nil {
		return 0, err
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("the guest ended without a status; its output is above")
	}
	return code, nil
}

// line returns the command line of qemu. Its last arguments are more, which only some
// guests need.
func (m *machine) line(at func(string) string, more ...string) []string {
	cpu := "max"
	if m.accel == accelKVM {
		cpu = "host"
	}
	return append([]string{
		"-accel", m.accel, "-cpu", cpu, "-smp", "1", "-m", strconv.Itoa(m.memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.kernel.image, "-initrd", at("initrd"),
		"-append", "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t mitigations=off nokaslr no_timer_check",
		"-serial", "stdio", "-serial", "file:" + at("status"),
	}, more...)
}

// share starts the server of the host's root file system, and returns a function that ends
// the server.
func (m *machine) share(ctx context.Context, socket string) (func(), error) {
	cmd := exec.CommandContext(ctx, m.virtiofsd, "--socket-path="+socket, "-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot", "-o", "no_posix_lock")
	words, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("share the root file system: %w", err)
	}
	var said strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&said, io.LimitReader(words, 16<<10))
		_, _ = io.Copy(io.Discard, words)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	}
	const patience = 10 * time.Second
	for deadline := time.Now().Add(patience); ; {
		if _, err := os.Stat(socket); err == nil {
			return stop, nil
		}
		select {
		case <-read:
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		}
		stop()
		return nil, fmt.Errorf("share the root file system: virtiofsd made no socket: %s", strings.TrimSpace(said.String()))
	}
}
