package statedir

import (
	"archive/tar"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var notes = store.Schema{Name: "notes", Steps: []string{"CREATE TABLE notes_all (text TEXT NOT NULL) STRICT"}}

// note writes text as a row into the database of a state directory, unless it is empty, and
// returns all rows.
func note(t *testing.T, dir, text string) (all []string) {
	t.Helper()
	s := store.New(dir)
	defer s.Close()
	err := s.Tables(notes).Write(t.Context(), func(tx *sql.Tx) error {
		if text != "" {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO notes_all VALUES (?)", text); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(t.Context(), "SELECT text FROM notes_all ORDER BY rowid")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var one string
			if err := rows.Scan(&one); err != nil {
				return err
			}
			all = append(all, one)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// write makes a file, and all directories above it.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// filled returns a state directory with a file in each part.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "belljar")
	for name, text := range map[string]string{
		"audit/audit.jsonl": "{}\n", "audit/audit.lock": "", "audit/audit.key": "key", "audit/casts/a.cast": "cast",
		"jobs/abcdefgh": "output", "plans/p-1/a.md": "plan", "protected/x.json": "{}", "token.key": "secret", "upstream.key": "secret",
		"search/a.json": "{}", "images/i/root/etc/passwd": "image", "workspaces/w/upper/x": "layer", "servers/note": "", "mine.txt": "mine",
	} {
		write(t, dir, name, text)
	}
	if err := os.Chmod(filepath.Join(dir, "audit/audit.key"), 0o400); err != nil {
		t.Fatal(err)
	}
	note(t, dir, "first")
	return dir
}

// tree returns the mode and content of each file below a directory, and the mode of each
// directory, without the database.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || strings.Contains("/"+name, "/db/") {
			return err
		}
		all[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[name] += " " + string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func backedUp(t *testing.T, dir string) []byte {
	t.Helper()
	var archive bytes.Buffer
	if _, err := Backup(t.Context(), dir, &archive); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// A restored backup has the same files and modes, and nothing else.
func TestRoundTrip(t *testing.T) {
	dir := filled(t)
	archive := backedUp(t, dir)
	to := filepath.Join(t.TempDir(), "new", "belljar")
	sum, aside, err := Restore(t.Context(), to, bytes.NewReader(archive), false)
	if err != nil || aside != "" || sum.Files != 10 {
		t.Fatalf("restored %+v, aside %q: %v; want 10 files", sum, aside, err)
	}
	want := tree(t, dir)
	for name := range want {
		if top, _, _ := strings.Cut(name, "/"); name != "." && !saved(top) {
			delete(want, name)
		}
	}
	if got := tree(t, to); !reflect.DeepEqual(got, want) {
		t.Errorf("restored\n%v\nwant\n%v", got, want)
	}
	if got := note(t, to, ""); !slices.Equal(got, []string{"first"}) {
		t.Errorf("the database has %q", got)
	}
}

// A restore moves an existing directory aside only if replace is set. The images and
// workspaces, which no backup contains, are moved into the new directory.
func TestRestoreReplaces(t *testing.T) {
	dir := filled(t)
	archive := backedUp(t, dir)
	note(t, dir, "second")
	write(t, dir, "plans/p-1/b.md", "later")
	before := tree(t, dir)
	if _, _, err := Restore(t.Context(), dir, bytes.NewReader(archive), false); !errors.Is(err, ErrThere) {
		t.Fatalf("got %v, want %v", err, ErrThere)
	}
	if now := tree(t, dir); !reflect.DeepEqual(now, before) {
		t.Errorf("the directory was changed:\n%v\n%v", before, now)
	}
	_, aside, err := Restore(t.Context(), dir, bytes.NewReader(archive), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := note(t, dir, ""); !slices.Equal(got, []string{"first"}) {
		t.Errorf("the database has %q", got)
	}
	if got := note(t, aside, ""); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the database aside has %q", got)
	}
	got := tree(t, dir)
	for name, there := range map[string]bool{"plans/p-1/a.md": true, "plans/p-1/b.md": false, "images/i/root/etc/passwd": true, "workspaces/w/upper/x": true, "servers": false, "mine.txt": false} {
		if (got[name] != "") != there {
			t.Errorf("%s is there: %v, want %v", name, got[name] != "", there)
		}
	}
	if _, err := os.Stat(filepath.Join(aside, "mine.txt")); err != nil {
		t.Error(err)
	}
}

// A backup follows no link out of the directory, and does not wait for a pipe.
func TestBackupStaysInside(t *testing.T) {
	const bait = "bait of another directory"
	dir, outside := filled(t), t.TempDir()
	write(t, outside, "bait", bait)
	for name, target := range map[string]string{"plans/link": filepath.Join(outside, "bait"), "plans/p-1/dir": outside, "audit/link": "../../bait", "jobs/zzzzzzzz": "/etc/hostname"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "plans/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	sum, err := Backup(t.Context(), dir, &archive)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(sum.Skipped)
	if want := []string{"audit/link", "jobs/zzzzzzzz", "plans/link", "plans/p-1/dir", "plans/pipe"}; !slices.Equal(sum.Skipped, want) {
		t.Errorf("skipped %q, want %q", sum.Skipped, want)
	}
	if bytes.Contains(archive.Bytes(), []byte(bait)) {
		t.Error("the archive has a file of another directory")
	}
	sizes, err := Sizes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int64{}
	for _, s := range sizes {
		names[s.Name] = s.Files
	}
	if names["plans"] != 6 || names[other] != 1 || names["images"] != 5 {
		t.Errorf("counted %v, want 6 of plans, 5 of images, 1 that is not belljar's", names)
	}
	if err := os.RemoveAll(filepath.Join(dir, "plans")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "plans")); err != nil {
		t.Fatal(err)
	}
	archive.Reset()
	if _, err := Backup(t.Context(), dir, &archive); err == nil && bytes.Contains(archive.Bytes(), []byte(bait)) {
		t.Error("a part that is a link was followed")
	}
}

// archiveOf returns an archive with the given entries after a manifest.
func archiveOf(t *testing.T, form int, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	first, err := json.Marshal(manifest{form, time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Mode: 0o600}, first)
	var sum ending
	for _, h := range entries {
		var content []byte
		if h.Typeflag == tar.TypeReg {
			content = []byte("content")
			sum.Files++
			sum.Bytes += int64(len(content))
		}
		add(h, content)
	}
	last, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: endingName, Mode: 0o600}, last)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &text
}

// A bad archive changes nothing in the state directory or next to it.
func TestRestoreRefuses(t *testing.T) {
	good := tar.Header{Typeflag: tar.TypeReg, Name: "token.key", Mode: 0o600}
	plans := tar.Header{Typeflag: tar.TypeDir, Name: "plans/", Mode: 0o700}
	for _, tt := range []struct {
		name, want string
		archive    io.Reader
	}{
		{"nothing", "it is empty", strings.NewReader("")},
		{"not an archive", "it is not a backup", strings.NewReader(strings.Repeat("x", 2048))},
		{"a newer form", "use a newer one", archiveOf(t, version+1, good)},
		{"no manifest", "it is not a backup", bytes.NewReader(archiveOf(t, version, good).Bytes()[1024:])},
		{"a path upwards", "is not part of a state", archiveOf(t, version, tar.Header{Typeflag: tar.TypeReg, Name: "../token.key", Mode: 0o600})},
		{"a path up and down", "is not part of a state", archiveOf(t, version, plans, tar.Header{Typeflag: tar.TypeReg, Name: "plans/../../x", Mode: 0o600})},
		{"an absolute path", "is not part of a state", archiveOf(t, version, tar.Header{Typeflag: tar.TypeReg, Name: "/tmp/belljar-restored", Mode: 0o600})},
		{"no part", "is not part of a state", archiveOf(t, version, tar.Header{Typeflag: tar.TypeReg, Name: "other", Mode: 0o600})},
		{"a part without backup", "is not part of a state", archiveOf(t, version, tar.Header{Typeflag: tar.TypeDir, Name: "images/", Mode: 0o700})},
		{"a link", "neither a file nor a directory", archiveOf(t, version, plans, tar.Header{Typeflag: tar.TypeSymlink, Name: "plans/l", Linkname: "/etc"}, tar.Header{Typeflag: tar.TypeReg, Name: "plans/l/x", Mode: 0o600})},
		{"a hard link", "neither a file nor a directory", archiveOf(t, version, plans, tar.Header{Typeflag: tar.TypeLink, Name: "plans/l", Linkname: "/etc/passwd"})},
		{"a device", "neither a file nor a directory", archiveOf(t, version, plans, tar.Header{Typeflag: tar.TypeChar, Name: "plans/null", Devmajor: 1, Devminor: 3})},
		{"a file twice", "file exists", archiveOf(t, version, good, good)},
		{"cut off in a file", "it is cut off", bytes.NewReader(archiveOf(t, version, good).Bytes()[:1600])},
		{"cut off between files", "it is cut off", bytes.NewReader(archiveOf(t, version, good).Bytes()[:2048])},
		{"a file too few", "its files are not those", io.MultiReader(bytes.NewReader(archiveOf(t, version, good).Bytes()[:1024]), bytes.NewReader(archiveOf(t, version, good).Bytes()[2048:]))},
		{"no database", "database", archiveOf(t, version, tar.Header{Typeflag: tar.TypeDir, Name: "db/", Mode: 0o700}, tar.Header{Typeflag: tar.TypeReg, Name: "db/belljar.db", Mode: 0o600})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filled(t)
			before := tree(t, filepath.Dir(dir))
			_, aside, err := Restore(t.Context(), dir, tt.archive, true)
			if err == nil || aside != "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, and the old directory moved to %q; want %q", err, aside, tt.want)
			}
			if now := tree(t, filepath.Dir(dir)); !reflect.DeepEqual(now, before) {
				t.Errorf("something changed:\n%v\n%v", before, now)
			}
		})
	}
	if _, err := os.Lstat("/tmp/belljar-restored"); err == nil {
		t.Error("an absolute path was written")
	}
}

// A restore drops the permissions of other users and the setuid bits of the files in an
// archive.
func TestRestoreNarrowsModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "belljar")
	archive := archiveOf(t, version, tar.Header{Typeflag: tar.TypeDir, Name: "plans/", Mode: 0o777}, tar.Header{Typeflag: tar.TypeReg, Name: "plans/a", Mode: 0o6777})
	if _, _, err := Restore(t.Context(), dir, archive, false); err != nil {
		t.Fatal(err)
	}
	got := tree(t, dir)
	if got["."] != "drwx------" || got["plans"] != "drwx------" || got["plans/a"] != "-rwx------ content" {
		t.Errorf("got %v", got)
	}
}

// Directories count as entries too: an archive of directories alone is bounded.
func TestRestoreBoundsEntries(t *testing.T) {
	directory := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o700}
	}
	for most, want := range map[int]string{2: "more than 2 files and directories", 3: ""} {
		archive := archiveOf(t, version, directory("plans/"), directory("plans/a/"), directory("plans/b/"))
		_, err := unpack(t.Context(), t.TempDir(), archive, most)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("at most %d entries: got %v, want %q", most, err, want)
		}
	}
}

func TestPrune(t *testing.T) {
	dir := filled(t)
	write(t, dir, "audit/casts/old.cast", "old")
	write(t, dir, "db/backup-7", "copy")
	write(t, dir, "db/backup-8", "copy that is being made")
	write(t, dir, "token.key.123", "key")
	write(t, dir, "upstream.key.123", "key")
	long := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{"audit/casts/old.cast", "db/backup-7", "token.key.123", "upstream.key.123", "audit/audit.jsonl", "token.key", "upstream.key"} {
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		keep time.Duration
		dry  bool
		want []string
	}{
		{24 * time.Hour, true, []string{"audit/casts/old.cast", "db/backup-7", "token.key.123", "upstream.key.123"}},
		{0, false, []string{"db/backup-7", "token.key.123", "upstream.key.123"}},
		{24 * time.Hour, false, []string{"audit/casts/old.cast"}},
		{24 * time.Hour, false, []string{}},
	} {
		all, err := Prune(dir, tt.keep, tt.dry)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, p := range all {
			got = append(got, p.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("keep %s, dry %v: removed %q, want %q", tt.keep, tt.dry, got, tt.want)
		}
	}
	for _, name := range []string{"audit/casts/a.cast", "db/backup-8", "audit/audit.jsonl", "token.key"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
