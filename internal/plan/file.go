package plan

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
)

// part matches one name in the path of a plan. A name does not begin with a dot, so it is
// neither ".." nor hidden.
var part = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_. -]{0,79}$`) })

// maxDepth is the most names in the path of a plan.
const maxDepth = 4

// fileName returns the path of a plan below the plans directory, or an error if name is not
// valid.
func fileName(name string) (string, error) {
	clean := strings.TrimPrefix(strings.TrimPrefix(name, "./"), "plans/")
	parts := strings.Split(clean, "/")
	for _, p := range parts {
		if path.IsAbs(name) || len(parts) > maxDepth || !part().MatchString(p) {
			return "", fmt.Errorf("%w: %.120q is not a name inside the plans directory; want one such as release.md, with letters, digits, spaces, _, - and ., and at most %d folders", ErrFile, name, maxDepth-1)
		}
	}
	if ext := path.Ext(clean); ext != ".md" && ext != ".markdown" {
		clean += ".md"
	}
	return clean, nil
}

// slug returns the part of a plan's name that is made from its goal.
func slug(goal string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(goal) {
		switch {
		case b.Len() >= 40:
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if text := strings.Trim(b.String(), "-"); text != "" {
		return "-" + text
	}
	return ""
}

// tenantDir returns the directory of a tenant's plans. The name of the tenant may be any
// text.
func tenantDir(tenant string) string {
	if part().MatchString(tenant) {
		return tenant
	}
	sum := sha256.Sum256([]byte(tenant))
	return "t-" + hex.EncodeToString(sum[:8])
}

// writeFile writes a plan into the plans directory, completely or not at all. It follows no
// link that leads out of this directory, because an os.Root opens only files beneath
// itself.
func writeFile(dir, tenant, file, text string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	defer root.Close()
	name := path.Join(tenantDir(tenant), file)
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return fmt.Errorf("save plan %s: %w", file, err)
	}
	draft := path.Join(path.Dir(name), ".draft-"+rand.Text())
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("save plan %s: %w", file, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(draft, name)
	}
	if err != nil {
		if gone := root.Remove(draft); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return fmt.Errorf("save plan %s: %w", file, err)
	}
	return syncDir(root, path.Dir(name))
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	defer d.Close()
	return d.Sync()
}
