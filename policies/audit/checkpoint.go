package audit

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"belljar.dev/internal/diskfile"
)

// Names of the files next to the files of records.
const (
	keyName        = "audit.key"
	publicName     = "audit.pub"
	checkpointName = "audit.checkpoint"
	lockName       = "audit.lock"
)

// origin is the first line of a checkpoint, which says what is signed.
const origin = "belljar.dev/audit"

// maxSmall bounds each of these small files, in bytes.
const maxSmall = 4 << 10

// Checkpoint is what was signed: the log had Seq records, and Hash was the hash of
// the last one.
type Checkpoint struct {
	Seq  uint64
	Hash [sha256.Size]byte
	Time time.Time
}

// text returns the text that is signed. Its form is that of a checkpoint of a transparency
// log (C2SP tlog-checkpoint), with the head of the chain in the place of the root of a
// tree.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s\n", origin, c.Seq, base64.StdEncoding.EncodeToString(c.Hash[:]), c.Time.UTC().Format(time.RFC3339))
}

// parseCheckpoint reads a checkpoint and checks its signature.
func parseCheckpoint(text []byte, key note.Verifier) (Checkpoint, error) {
	var c Checkpoint
	if len(text) > maxSmall {
		return c, errors.New("it is longer than any checkpoint")
	}
	n, err := note.Open(text, note.VerifierList(key))
	if err != nil {
		if _, unknown := errors.AsType[*note.UnverifiedNoteError](err); unknown {
			return c, errors.New("it is not signed by this log's key")
		}
		return c, errors.New("its signature does not match it")
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 5 || lines[0] != origin {
		return c, errors.New("it is signed, but is not a checkpoint of an audit log")
	}
	if c.Seq, err = strconv.ParseUint(lines[1], 10, 64); err != nil {
		return c, fmt.Errorf("its number of records: %w", err)
	}
	hash, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(hash) != sha256.Size {
		return c, errors.New("its hash cannot be read")
	}
	copy(c.Hash[:], hash)
	if c.Time, err = time.Parse(time.RFC3339, lines[3]); err != nil {
		return c, fmt.Errorf("its time: %w", err)
	}
	return c, nil
}

// keys are the keys with which a writer signs.
type keys struct {
	signer func() (note.Signer, error) // made at the first call, see signerOf
	public note.Verifier
	text   string // text form of public
	mac    []byte // key of the HMACs in records
}

// loadKeys reads the keys of a log, or makes them if the log is new. The caller holds the
// lock.
func loadKeys(dir string, isNew bool) (keys, error) {
	path := filepath.Join(dir, keyName)
	secret, err := readSecretFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isNew:
		if secret, err = makeKeys(dir); err != nil {
			return keys{}, err
		}
	case errors.Is(err, fs.ErrNotExist):
		return keys{}, fmt.Errorf("open %s: the log exists and its key does not; put the key back, or move the directory away to begin a new log", path)
	case err != nil:
		return keys{}, err
	}
	name, id, err := readPrivate(secret)
	if err != nil {
		return keys{}, fmt.Errorf("read %s: %w", path, err)
	}
	public, text, err := loadPublic(dir)
	if err != nil {
		return keys{}, err
	}
	if public.Name() != name || public.KeyHash() != id {
		return keys{}, fmt.Errorf("read %s: it does not belong to %s", filepath.Join(dir, publicName), keyName)
	}
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("belljar audit: values taken out of records"))
	return keys{signerOf(path, secret), public, text, h.Sum(nil)}, nil
}

// readPrivate returns the name in a private key and the id of its public key, in the form
// that note.GenerateKey writes: PRIVATE+KEY+NAME+ID+DATA.
func readPrivate(secret string) (name string, id uint32, err error) {
	parts := strings.SplitN(secret, "+", 5) // the data is base64, which may contain a plus
	if len(parts) != 5 || parts[0] != "PRIVATE" || parts[1] != "KEY" {
		return "", 0, errNoKey
	}
	hash, err := hex.DecodeString(parts[3])
	if err != nil || len(hash) != 4 {
		return "", 0, errNoKey
	}
	data, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(data) != 1+ed25519.SeedSize { // the first byte names the algorithm
		return "", 0, errNoKey
	}
	return parts[2], binary.BigEndian.Uint32(hash), nil
}

var errNoKey = errors.New("it contains no key")

// signerOf returns a function that makes the signer of a private key at its first call. The
// public key that belongs to it is computed only then: that takes longer than everything
// else in Open, because crypto/ed25519 first makes its table of multiples. A damaged
// private key is also found only then.
func signerOf(path, secret string) func() (note.Signer, error) {
	return sync.OnceValues(func() (note.Signer, error) {
		signer, err := note.NewSigner(secret)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, errNoKey)
		}
		return signer, nil
	})
}

// makeKeys writes a new pair of keys. It writes the public key first, so that both keys
// exist if the private key exists.
func makeKeys(dir string) (secret string, err error) {
	id := make([]byte, 4)
	rand.Read(id)
	secret, public, err := note.GenerateKey(rand.Reader, origin+"/"+hex.EncodeToString(id))
	if err != nil {
		return "", fmt.Errorf("make the log's key: %w", err)
	}
	for _, f := range []struct{ name, text string }{{publicName, public}, {keyName, secret}} {
		if err := diskfile.Replace(filepath.Join(dir, f.name), []byte(f.text+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	return secret, nil
}

// readSecretFile reads a file that only its owner can read or write. It refuses any other
// file, since others could have changed the content.
func readSecretFile(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("read %s: others can read or write it; run chmod 600 on it", path)
	}
	text, err := readSmall(path)
	return strings.TrimSpace(string(text)), err
}

// readSmall reads a file of at most maxSmall bytes.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, maxSmall+1)
	n, err := f.ReadAt(text, 0)
	switch {
	case n > maxSmall:
		return nil, fmt.Errorf("read %s: it has more than %d bytes", path, maxSmall)
	case err == nil || n == 0:
		return nil, fmt.Errorf("read %s: it is empty", path)
	}
	return text[:n], nil
}

// loadPublic reads the key that checks a log's checkpoints, and returns its text as well.
func loadPublic(dir string) (note.Verifier, string, error) {
	path := filepath.Join(dir, publicName)
	raw, err := readSmall(path)
	if err != nil {
		return nil, "", err
	}
	text := strings.TrimSpace(string(raw))
	key, err := note.NewVerifier(text)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, errNoKey)
	}
	return key, text, nil
}
