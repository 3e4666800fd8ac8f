package server

import (
	"fmt"
	"os"
	"path/filepath"

	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/policies"
)

// frontFiles checks that no box of a policy reaches a file of the front in a dangerous way:
// a box that reads the key can pose as the server, and a box that writes the certificates
// of authorities can pose as any client. The files are read again while the server runs, so
// a box must not be able to change a link on the way to them either.
func frontFiles(cfg *front.Config, workspaces []string, p *policies.Policy) error {
	if cfg == nil {
		return nil
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		what, name string
		secret     bool
	}{
		{"the certificate", cfg.Cert, false},
		{"the key", cfg.Key, true},
		{"the certificates of authorities", cfg.ClientCA, false},
		{"the access log", cfg.AccessLog, true},
	} {
		path := file.name
		if path == "" || path == "-" && path == cfg.AccessLog {
			continue
		}
		if !filepath.IsAbs(path) {
			path = here + "/" + path // not cleaned: link/.. is the parent of the link's target
		}
		place, profile, err := config.Reached(path, workspaces, p, func(m policies.Mount) bool { return file.secret || m.Writable })
		switch {
		case err != nil:
			return fmt.Errorf("%s %s: %w; keep it elsewhere", file.what, file.name, err)
		case profile != "":
			return fmt.Errorf("%s %s lies in %s, which boxes of the profile %s reach; narrow that, or keep it elsewhere", file.what, file.name, place, profile)
		case place != "":
			return fmt.Errorf("%s %s lies in the workspace %s, where an agent can read and change it; keep it elsewhere", file.what, file.name, place)
		}
	}
	return nil
}
