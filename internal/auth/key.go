package auth

import (
	"errors"
	"fmt"
	"path/filepath"

	"belljar.dev/internal/keyfile"
)

// keyFile is the file in the state directory that contains the key of the HMACs. The key is
// not in the database: a copy of the database alone is of no use for testing guesses.
const keyFile = "token.key"

// readKey returns the key of a state directory. If the directory has no key, the error is
// fs.ErrNotExist.
func readKey(state string) ([]byte, error) {
	key, err := keyfile.Read(filepath.Join(state, keyFile))
	return key, ofTokens(err)
}

// makeKey returns the key of a state directory, and creates the key if the directory has
// none yet.
func makeKey(state string) ([]byte, error) {
	key, err := keyfile.Make(filepath.Join(state, keyFile))
	return key, ofTokens(err)
}

// ofTokens returns an error that says which key err is about, and what to do.
func ofTokens(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keyfile.ErrUnfit):
		return fmt.Errorf("key of tokens: %w; restore it from a backup, or revoke all tokens and remove it", err)
	}
	return fmt.Errorf("key of tokens: %w", err)
}
