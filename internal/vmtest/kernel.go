package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kernel is an unpacked kernel package.
type kernel struct {
	image   string
	modules []string // modules in the order in which they must be loaded
}

// metaPackages are the packages that depend on the newest kernel of a series in Debian 12
// and so name it. The cloud kernels are small and contain virtio.
var metaPackages = map[string]string{"6.12": "linux-image-6.12-cloud-amd64", "6.1": "linux-image-cloud-amd64"}

// wanted are the modules of the guest, each after the modules that it needs. If the package
// of a kernel does not contain a file, the kernel has the module built in.
var wanted = []string{
	"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
	"fuse", "virtiofs", "overlay", "vsock",
	"loop", "quota_tree", "quota_v2", "libcrc32c", "xfs",
	"nf_defrag_ipv4", "nf_defrag_ipv6", "nf_conntrack", "nf_nat", "nfnetlink", "nf_tables", "nft_chain_nat", "nft_nat",
	"tun",
}

// findKernel returns the kernel of a series from the cache. If it is not there, findKernel
// downloads it first.
func findKernel(ctx context.Context, cache, series string) (kernel, error) {
	meta, ok := metaPackages[series]
	if !ok {
		return kernel{}, fmt.Errorf("kernel %q: only 6.12 and 6.1 are known", series)
	}
	dir := filepath.Join(cache, "linux-"+series)
	if _, err := os.Stat(dir); err != nil {
		if err := fetchKernel(ctx, meta, dir); err != nil {
			return kernel{}, err
		}
	}
	images, err := filepath.Glob(filepath.Join(dir, "boot/vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return kernel{}, fmt.Errorf("%s contains %d kernels, want one; remove it and try again", dir, len(images))
	}
	k := kernel{image: images[0]}
	for _, name := range wanted {
		found := ""
		err := filepath.WalkDir(filepath.Join(dir, "lib/modules"), func(path string, _ os.DirEntry, err error) error {
			if base, _, _ := strings.Cut(filepath.Base(path), ".ko"); base == name && base != filepath.Base(path) {
				found = path
			}
			return err
		})
		if err != nil {
			return kernel{}, err
		}
		if found != "" {
			k.modules = append(k.modules, found)
		}
	}
	return k, nil
}

// fetchKernel unpacks the kernel that a package depends on. It installs nothing, so the
// host still boots as before. apt checks the signature.
func fetchKernel(ctx context.Context, meta, dir string) error {
	for _, program := range []string{"apt-get", "apt-cache", "dpkg"} {
		if _, err := exec.LookPath(program); err != nil {
			return &lackError{"no " + program + " to fetch a kernel with"}
		}
	}
	// A fresh system has no package lists at all. If the update fails, old lists may be
	// good enough.
	_ = exec.CommandContext(ctx, "apt-get", "update", "-qq").Run()
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", "--important", meta).Output()
	if err != nil {
		return &lackError{fmt.Sprintf("no package %s: %v", meta, err)}
	}
	_, name, ok := strings.Cut(string(out), "Depends: ")
	if !ok {
		return &lackError{"package " + meta + " names no kernel"}
	}
	name, _, _ = strings.Cut(name, "\n")
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	get := exec.CommandContext(ctx, "apt-get", "download", "-q", strings.TrimSpace(name))
	get.Dir = tmp
	if out, err := get.CombinedOutput(); err != nil {
		return &lackError{fmt.Sprintf("apt-get download %s: %v: %s", name, err, out)}
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return errors.Join(err, fmt.Errorf("apt-get download %s gave %d packages", name, len(debs)))
	}
	tree := filepath.Join(tmp, "tree")
	if out, err := exec.CommandContext(ctx, "dpkg", "-x", debs[0], tree).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", debs[0], err, out)
	}
	return os.Rename(tree, dir)
}
