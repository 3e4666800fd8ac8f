package bus

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// The messages of NATS decide which worker gets a place. Therefore they are only sent to
// this machine, or over TLS by a front with credentials.
func TestConnectRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	creds := file("pair", "front:secret\n")
	for _, tt := range []struct {
		cfg  Config
		want string // part of the error; empty if no error is wanted
	}{
		{Config{Servers: []string{"nats://127.0.0.1:1"}}, ""},
		{Config{Servers: []string{"nats://localhost:1", "nats://[::1]:1"}}, ""},
		{Config{Servers: []string{"tls://127.0.0.2:1"}, Credentials: creds}, ""},
		{Config{}, "at least one server"},
		{Config{Servers: []string{"tls://192.0.2.1:1"}}, "no credentials"},
		{Config{Servers: []string{"nats://192.0.2.1:1"}, Credentials: creds}, "write tls://192.0.2.1:1"},
		{Config{Servers: []string{"nats://127.0.0.1:1", "nats://nats.example:1"}, Credentials: creds}, "write tls://nats.example:1"},
		{Config{Servers: []string{"nats://localhost.example:1"}, Credentials: creds}, "another machine"},
		{Config{Servers: []string{"nats://user:secret@127.0.0.1:1"}}, "has credentials"},
		{Config{Servers: []string{"nats://127.0.0.1"}}, "is not a server"},
		{Config{Servers: []string{"http://127.0.0.1:1"}}, "is not a server"},
		{Config{Servers: []string{"127.0.0.1:1"}}, "is not a server"},
		{Config{Servers: []string{"nats://127.0.0.1:1/path"}}, "is not a server"},
		{Config{Servers: []string{"nats://127.0.0.1:1"}, Credentials: filepath.Join(dir, "none")}, "no such file"},
		{Config{Servers: []string{"nats://127.0.0.1:1"}, Credentials: file("empty", "")}, "want a .creds file"},
		{Config{Servers: []string{"nats://127.0.0.1:1"}, Credentials: file("lines", "a:b\nc:d\n")}, "want a .creds file"},
		{Config{Servers: []string{"nats://127.0.0.1:1"}, Credentials: file("seed", "SUxx")}, "seed"},
		{Config{Servers: []string{"nats://127.0.0.1:1"}, Credentials: file("large", strings.Repeat("x", maxCredentials+1))}, "which no credentials have"},
		{Config{Servers: []string{"tls://127.0.0.1:1"}, CA: filepath.Join(dir, "none")}, "no such file"},
	} {
		tt.cfg.Log = slog.New(slog.DiscardHandler)
		b, err := Connect(tt.cfg)
		if err == nil {
			b.Close()
		}
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// The contents of a file decide which kind of credentials it has.
func TestCredentials(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pair")
	if err := os.WriteFile(name, []byte("front:pass:word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := credentials(name)
	if err != nil {
		t.Fatal(err)
	}
	var all nats.Options
	if err := o(&all); err != nil || all.User != "front" || all.Password != "pass:word" {
		t.Errorf("got %q %q, %v", all.User, all.Password, err)
	}
}
