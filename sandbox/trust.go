package sandbox

import (
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// If the door opens TLS, the box trusts the door's certificate authority in addition to the
// authorities of the host. The door's authority is for this box only: its key never leaves
// the memory of the supervisor, and no other box and nothing on the host trusts it.

// Files of the box's trust store.
const (
	authorityFile = "/etc/belljar/authority.pem" // the door's authority alone
	storeFile     = "/etc/belljar/cacerts"       // the door's authority alone, for Java
	bundleDir     = "/etc/belljar/bundle"
	bundleFile    = bundleDir + "/all.pem" // the door's authority and those of the host, or of the image
)

// bundles are the files in which programs look for authorities, on Debian and on
// Fedora. Either may be a link. An image may have both.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

// stores are the files in which Java looks for authorities, in the packages of Debian and
// Fedora. No variable names that file except JAVA_TOOL_OPTIONS, and Java prints a message
// if that is set.
var stores = []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"}

// bundleMost is more bytes than the authorities of any host take.
const bundleMost = 16 << 20

// trustEnv are the variables for programs that do not use the system's store. Programs with
// their own list of authorities (Node.js, deno) add the door's authority to that list.
var trustEnv = map[string]string{
	"NODE_EXTRA_CA_CERTS": authorityFile, "DENO_CERT": authorityFile,
	"SSL_CERT_FILE": bundleFile, "CURL_CA_BUNDLE": bundleFile, "REQUESTS_CA_BUNDLE": bundleFile,
	"PIP_CERT": bundleFile, "GIT_SSL_CAINFO": bundleFile, "CARGO_HTTP_CAINFO": bundleFile, "AWS_CA_BUNDLE": bundleFile,
	"npm_config_cafile": bundleFile,
}

// trust writes the authority of the door and those of the host, or of the image, to one file,
// which replaces their file in the box. It runs after the old root was unmounted, so that a
// link cannot lead out of the box.
func (p *plan) trust(b *builder) {
	if len(p.authority) == 0 {
		return
	}
	b.Step("trust the egress door")
	b.dir(bundleDir)
	if imaged(p.mounts) { // the root is read-only already, so the bundle gets a file system of its own
		_, tree := b.tmpfs([2]string{"mode", "755"}, [2]string{"size", strconv.Itoa(2 * bundleMost)}, [2]string{"nr_inodes", "8"})
		b.Call(unix.SYS_MOVE_MOUNT, tree, "", atFDCWD, bundleDir, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	bundle := b.Call(unix.SYS_OPENAT, atFDCWD, bundleFile, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o444).Save()
	b.Call(unix.SYS_WRITE, bundle, b.Bytes(p.authority), len(p.authority))
	names := bundlesOf(imaged(p.mounts))
	for _, name := range names {
		from := b.Call(unix.SYS_OPENAT, atFDCWD, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK).Ignore(unix.ENOENT, 1).Save()
		b.Call(unix.SYS_SENDFILE, bundle, from, 0, bundleMost)
	}
	// All are read before the first is replaced: both may be links to one file, and a bundle
	// that is copied to itself grows to bundleMost.
	for _, name := range names {
		b.Call(unix.SYS_MOUNT, bundleFile, name, 0, unix.MS_BIND, 0).Ignore(unix.ENOENT, 1)
		b.attr(name, 0, closed)
	}
	for _, name := range stores {
		b.Call(unix.SYS_MOUNT, storeFile, name, 0, unix.MS_BIND, 0).IgnoreAll(1)
		b.attr(name, 0, closed)
	}
	if imaged(p.mounts) {
		b.Call(unix.SYS_CLOSE, bundle) // a mount with a file that is open for writing cannot become read-only
		b.attr(bundleDir, 0, closed)
	}
}

// bundlesOf returns the files with authorities that a box may have: those that an image can
// have, or the one of the host.
func bundlesOf(image bool) []string {
	if image {
		return bundles
	}
	for i, name := range bundles {
		if _, err := os.Stat(name); err == nil {
			return bundles[i : i+1]
		}
	}
	return nil
}

// Pin returns the pin of the key with which the door of the box opens TLS, or "" if the
// door opens no TLS: see egress.Door.Pin.
func (b *Box) Pin() string { return b.means.door.Pin() }

// javaStore returns a Java trust store (JKS, version 2) with one authority, given in PEM.
// It leaves out the authorities of the host: a TLS client in the box only meets
// certificates of the door's authority.
func javaStore(authority []byte) ([]byte, error) {
	block, _ := pem.Decode(authority)
	if block == nil {
		return nil, errors.New("make a trust store: the authority is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("make a trust store: %w", err)
	}
	var s []byte
	text := func(t string) { s = append(binary.BigEndian.AppendUint16(s, uint16(len(t))), t...) }
	for _, word := range []uint32{0xfeedfeed, 2, 1, 2} { // magic, version, number of entries, kind of the first entry
		s = binary.BigEndian.AppendUint32(s, word)
	}
	text("belljar")
	// The date is the same each time that the box starts.
	s = binary.BigEndian.AppendUint64(s, uint64(cert.NotBefore.UnixMilli()))
	text("X.509")
	s = append(binary.BigEndian.AppendUint32(s, uint32(len(block.Bytes))), block.Bytes...)
	// The format has a digest with a password. "changeit" is the well-known
	// default, so the digest protects nothing.
	sum := sha1.New()
	for _, c := range []byte("changeit") {
		sum.Write([]byte{0, c})
	}
	sum.Write([]byte("Mighty Aphrodite"))
	sum.Write(s)
	return sum.Sum(s), nil
}
