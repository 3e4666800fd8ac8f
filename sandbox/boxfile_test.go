package sandbox_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
)

// OpenFile opens the file that the box has at the path: never the target of a link, and
// never a file that the box's user may not read.
func TestOpenFile(t *testing.T) {
	for _, profile := range []string{"rw", "overlay"} {
		t.Run(profile, func(t *testing.T) {
			var box *sandbox.Box
			if profile == "overlay" {
				s, _, _ := overlaid(t)
				var err error
				if box, err = s.Open(t.Context(), "one", overlayGrant(t)); err != nil {
					t.Fatal(err)
				}
				defer box.Close()
			} else {
				box, _ = openBox(t, grant(t))
			}
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte("the host's"), 0o644); err != nil {
				t.Fatal(err)
			}
			if r, text := shell(t, box, `
				mkdir -p a/b && echo in the box > a/b/f && echo tmp > /tmp/f && echo shm > /dev/shm/f
				ln -s f a/b/link && ln -s a up && ln -s `+secret+` out && ln -s /etc/passwd passwd && ln -s /proc/self/environ env
				ln -s ../../../../../../../..`+secret+` climbs
				mkfifo fifo; mkdir closed; echo x > closed/f; chmod 0 closed; echo x > unread; chmod 0 unread`); r.Code != 0 {
				t.Fatal(text)
			}
			for name, want := range map[string]string{
				"/workspace/a/b/f": "in the box\n", "/workspace//a/./b/f": "in the box\n", "/tmp/f": "tmp\n", "/dev/shm/f": "shm\n",
			} {
				f, err := box.OpenFile(t.Context(), name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, err := io.ReadAll(f)
				f.Close()
				if err != nil || string(got) != want {
					t.Errorf("%s: got %q, %v", name, got, err)
				}
			}
			for name, want := range map[string]error{
				"/workspace/a/b/link": sandbox.ErrLink, "/workspace/up/b/f": sandbox.ErrLink, "/workspace/out": sandbox.ErrLink,
				"/workspace/passwd": sandbox.ErrLink, "/workspace/env": sandbox.ErrLink, "/workspace/climbs": sandbox.ErrLink,
				"/workspace/fifo": sandbox.ErrNotPlain, "/workspace/a": sandbox.ErrNotPlain, "/": sandbox.ErrNotPlain,
				"/proc/self/environ": sandbox.ErrNotPlain, "/proc/1/root/etc/passwd": sandbox.ErrNotPlain, "/dev/null": sandbox.ErrNotPlain, "/sys/kernel": sandbox.ErrNotPlain,
				"/workspace/none": fs.ErrNotExist, secret: fs.ErrNotExist, "/workspace/closed/f": fs.ErrPermission, "/workspace/unread": fs.ErrPermission,
				"workspace/a/b/f": syscall.EINVAL, "/workspace/../workspace/a/b/f": syscall.EINVAL, "/workspace/a\x00b": syscall.EINVAL,
				strings.Repeat("/a", 200): nil,
			} {
				var err error
				// A look at the workspace restores the right to list a directory that a
				// command closed.
				testenv.Until(10*time.Second, func() bool {
					var f *os.File
					if f, err = box.OpenFile(t.Context(), name); err == nil {
						f.Close()
						shell(t, box, "chmod 0 closed")
					}
					return err != nil
				})
				if err == nil || want != nil && !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", name, err, want)
				}
			}
			shell(t, box, "chmod 700 closed") // otherwise the test's directory could not be removed
			box.Close()
			if _, err := box.OpenFile(t.Context(), "/tmp/f"); !errors.Is(err, sandbox.ErrClosed) {
				t.Errorf("of a closed box: %v", err)
			}
		})
	}
}
