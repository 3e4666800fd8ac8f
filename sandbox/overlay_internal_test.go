package sandbox

import (
	"slices"
	"testing"
)

func TestMountsBeneath(t *testing.T) {
	const info = `21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
40 21 0:30 / /srv/tree rw - tmpfs none rw
41 40 0:31 / /srv/tree/a\040b\134c rw shared:2 - tmpfs none rw
42 21 0:32 / /srv/trees rw - tmpfs none rw

43 40
`
	for dir, want := range map[string][]string{
		"/srv/tree": {`/srv/tree/a b\c`}, "/srv/trees": nil, "/opt": nil,
	} {
		if got := mountsBeneath(info, dir); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
}
