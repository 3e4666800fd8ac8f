package sandbox_test

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/images/imagetest"
)

// A box whose TLS is opened at the door has all authorities of the host, however many there
// are. The file that stands for them is any large file that the box sees.
func TestLargeBundleIsWhole(t *testing.T) {
	name, size := "", int64(0)
	err := filepath.WalkDir("/usr/share", func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // the test needs only one file
		}
		info, err := e.Info()
		if err == nil && info.Mode()&0o004 != 0 && info.Size() > 2<<20 && info.Size() < 8<<20 {
			name, size = at, info.Size()
			return fs.SkipAll
		}
		return nil
	})
	if err != nil || name == "" {
		t.Skipf("/usr/share has no file of 2 to 8 MiB: %v", err)
	}
	sandbox.SetBundles(t, name)
	b, _ := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: none}\nnet: {mode: proxy, tls: intercept, allow: [{host: allowed.example, ports: [443], methods: [GET]}]}"))
	_, out := shell(t, b, `echo $(($(stat -c %s /etc/belljar/bundle/all.pem) - $(stat -c %s /etc/belljar/authority.pem)))`)
	if want := strconv.FormatInt(size, 10) + "\n"; out != want {
		t.Errorf("the box has %q bytes of the host's authorities, want %q", out, want)
	}
}

// A command cannot change the authorities that the programs of its box trust, also if
// Landlock does not protect them.
func TestAuthoritiesAreReadOnly(t *testing.T) {
	s, _ := world(t)
	s.SetLandlock(0)
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {system: true, workspace: none}\nnet: {mode: proxy, tls: intercept, allow: [{host: allowed.example, ports: [443], methods: [GET]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	_, out := shell(t, b, `for f in /etc/belljar/*.pem /etc/belljar/bundle/* /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
	if test -e "$f" && { chmod 644 "$f" || echo >>"$f"; } 2>/dev/null; then echo "$f"; fi; done`)
	if out != "" {
		t.Errorf("a command changed\n%s", out)
	}
}

// With an image, the box trusts the authorities of the image.
func TestAuthoritiesOfAnImage(t *testing.T) {
	files := imagetest.HostRoot(t, "bash", "cat")
	files = append(files, imagetest.File("etc/ssl/certs/ca-certificates.crt", "one\n", 0o644), imagetest.File("etc/pki/tls/certs/ca-bundle.crt", "two\n", 0o644))
	for _, tt := range []struct {
		files []imagetest.Entry
		want  string
	}{
		{files, "one\ntwo\n"},
		{files[:len(files)-1], "one\n"},
		{files[:len(files)-2], ""},
		// Two links to one file: the authorities are there twice, but the bundle is not copied
		// to itself.
		{append(slices.Clip(files[:len(files)-2]), imagetest.File("store/ca.crt", "one\n", 0o644),
			imagetest.Link("etc/ssl/certs/ca-certificates.crt", "/store/ca.crt"), imagetest.Link("etc/pki/tls/certs/ca-bundle.crt", "/store/ca.crt")), strings.Repeat("one\n", 2)},
	} {
		s, _ := imageWorld(t, imagetest.Runtime{}, imagetest.Tar(t, tt.files...))
		b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {image: test}\nnet: {mode: proxy, tls: intercept, allow: [{host: allowed.example, ports: [443], methods: [GET]}]}"))
		if err != nil {
			t.Fatal(err)
		}
		_, door := shell(t, b, "cat /etc/belljar/authority.pem")
		for _, name := range []string{"$SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"} {
			if name[0] == '/' && tt.want == "" {
				continue
			}
			if _, out := shell(t, b, "cat "+name); out != door+tt.want || door == "" {
				t.Errorf("%s has\n%s\nwant\n%s%s", name, out, door, tt.want)
			}
		}
	}
}
