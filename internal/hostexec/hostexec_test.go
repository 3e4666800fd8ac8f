package hostexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// sh returns a valid Program: a shell script whose output goes to out.
func sh(t *testing.T, script string, out *bytes.Buffer) hostexec.Program {
	t.Helper()
	return hostexec.Program{
		Argv: []string{"sh", "-c"}, Data: []string{script}, Dir: "/", Boxes: hostexec.WrittenIn(), Timeout: time.Minute,
		Inherit: os.Environ(), Cgroup: testenv.CgroupDir(t), Stdout: out, Output: 64 << 10,
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	p := sh(t, "pwd; cat; exit 7", &out)
	p.Stdin = []byte("in")
	if code, err := hostexec.Run(t.Context(), p); code != 7 || err != nil || out.String() != "/\nin" {
		t.Errorf("got %d, %v, %q", code, err, out.String())
	}
	// Run does not wait for a program to read its whole input.
	p = sh(t, "exit 0", &out)
	p.Stdin = bytes.Repeat([]byte("x"), hostexec.MaxStdin)
	if code, err := hostexec.Run(t.Context(), p); code != 0 || err != nil {
		t.Errorf("got %d, %v", code, err)
	}
}

// TestNothingIsLeftToChance checks that a program is refused if a required field is
// missing, and that the zero value is refused.
func TestNothingIsLeftToChance(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	boxed := in("boxed")
	for _, name := range []string{"boxed/bin", "bin", "proper"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"boxed/out": filepath.Join(dir, "proper"), "in": boxed, "over": filepath.Join(dir, "boxed/out"), "loop": filepath.Join(dir, "loop"),
		"bin/tool": filepath.Join(boxed, "bin/tool"), "dots": "boxed/out/..",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(boxed, "bin/tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"good": "#!/usr/bin/env sh\nexit\n", "script": "#! \t" + in("boxed/bin/tool") + " -x\n", "scripts": "#!" + in("script"),
		"argument": "#!/usr/bin/env " + in("boxed/bin/tool") + "\n", "option": "#!/usr/bin/env -S A=b PATH=" + boxed + " tool\n",
		"list": "#!/usr/bin/env -S PATH=/usr/bin:" + in("boxed/bin") + " tool\n", "letter": "#!/bin/sh -x" + in("boxed/bin") + "\n",
		"near": "#!sh\n", "turn": "#!" + in("turn") + "\n",
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if path, err := hostexec.WrittenIn(boxed).Find(in("good"), ""); path != in("good") || err != nil {
		t.Errorf("the control: a script by an interpreter of the system: %q, %v", path, err)
	}
	if code, err := hostexec.Run(t.Context(), hostexec.Program{}); err == nil {
		t.Errorf("the zero value ran: %d", code)
	}
	for name, change := range map[string]func(p *hostexec.Program){
		"no program":                         func(p *hostexec.Program) { p.Argv = nil },
		"no directory":                       func(p *hostexec.Program) { p.Dir = "" },
		"a relative directory":               func(p *hostexec.Program) { p.Dir = "." },
		"no word about boxes":                func(p *hostexec.Program) { p.Boxes = hostexec.Boxes{} },
		"no deadline":                        func(p *hostexec.Program) { p.Timeout = 0 },
		"a deadline below none":              func(p *hostexec.Program) { p.Timeout = -1 },
		"a deadline beyond the most":         func(p *hostexec.Program) { p.Timeout = hostexec.MaxTimeout + 1 },
		"no bound of output":                 func(p *hostexec.Program) { p.Output = 0 },
		"too much output":                    func(p *hostexec.Program) { p.Output = hostexec.MaxOutput + 1 },
		"too much input":                     func(p *hostexec.Program) { p.Stdin = make([]byte, hostexec.MaxStdin+1) },
		"a directory of boxes":               func(p *hostexec.Program) { p.Dir = boxed },
		"a directory in one of boxes":        func(p *hostexec.Program) { p.Dir = in("boxed/bin") },
		"a link to one":                      func(p *hostexec.Program) { p.Dir = in("in") },
		"a link that lies in one":            func(p *hostexec.Program) { p.Dir = in("boxed/out") },
		"a link by way of one":               func(p *hostexec.Program) { p.Dir = in("over") },
		"a link through one and up":          func(p *hostexec.Program) { p.Dir = in("dots") },
		"a path through one and up":          func(p *hostexec.Program) { p.Dir = in("boxed") + "/out/.." },
		"links without end":                  func(p *hostexec.Program) { p.Dir = in("loop") },
		"a program of boxes":                 func(p *hostexec.Program) { p.Argv = []string{in("boxed/bin/tool")} },
		"a program by a link":                func(p *hostexec.Program) { p.Argv = []string{in("bin/tool")} },
		"a program by a link on the PATH":    func(p *hostexec.Program) { p.Argv, p.Inherit = []string{"tool"}, []string{"PATH=" + in("bin")} },
		"a script for a program of boxes":    func(p *hostexec.Program) { p.Argv = []string{in("script")} },
		"a script for such a script":         func(p *hostexec.Program) { p.Argv = []string{in("scripts")} },
		"a script that env starts it for":    func(p *hostexec.Program) { p.Argv = []string{in("argument")} },
		"a script with a PATH of boxes":      func(p *hostexec.Program) { p.Argv = []string{in("option")} },
		"a script with a list with boxes":    func(p *hostexec.Program) { p.Argv = []string{in("list")} },
		"a script with an option of boxes":   func(p *hostexec.Program) { p.Argv = []string{in("letter")} },
		"a script by a relative interpreter": func(p *hostexec.Program) { p.Argv = []string{in("near")} },
		"a script for itself":                func(p *hostexec.Program) { p.Argv = []string{in("turn")} },
		"a program by a relative path":       func(p *hostexec.Program) { p.Argv = []string{"./sh"} },
		"a program of no name":               func(p *hostexec.Program) { p.Argv = []string{""} },
		"an argument of boxes":               func(p *hostexec.Program) { p.Argv = []string{"cat", in("boxed/x")} },
		"an option of boxes":                 func(p *hostexec.Program) { p.Argv = []string{"cat", "--file=" + in("boxed/x")} },
		"an option's letter before one":      func(p *hostexec.Program) { p.Argv = []string{"cat", "-f" + in("boxed/x")} },
		"an address of boxes":                func(p *hostexec.Program) { p.Argv = []string{"cat", "file://" + in("boxed/x")} },
		"a list with one of boxes":           func(p *hostexec.Program) { p.Argv = []string{"cat", "/usr/x:" + in("boxed/x")} },
		"a file of boxes behind an @":        func(p *hostexec.Program) { p.Argv = []string{"cat", "data=@" + in("boxed/x")} },
		"a second value of boxes":            func(p *hostexec.Program) { p.Argv = []string{"cat", "--o=f=" + in("boxed/x")} },
		"a relative path of boxes":           func(p *hostexec.Program) { p.Argv = []string{"cat", in("boxed/x")[1:]} },
		"a path up and to boxes":             func(p *hostexec.Program) { p.Argv = []string{"cat", "../.." + in("boxed/x")} },
		"a script that names one of boxes":   func(p *hostexec.Program) { p.Argv = []string{"sh", "-c", "echo x; cat '" + in("boxed/x") + "'"} },
		"a link to boxes in a script":        func(p *hostexec.Program) { p.Argv = []string{"sh", "-c", "cat <" + in("over/x") + ";"} },
		"a source of boxes":                  func(p *hostexec.Program) { p.Sources = []string{in("boxed/x")} },
		"a HOME of boxes":                    func(p *hostexec.Program) { p.Inherit = []string{"HOME=" + boxed} },
		"a configuration of boxes":           func(p *hostexec.Program) { p.Inherit = []string{"XDG_CONFIG_HOME=" + in("in/config")} },
		"a variable that can hold code":      func(p *hostexec.Program) { p.Pass = []string{"BASH_ENV"} },
		"a variable that says where code is": func(p *hostexec.Program) { p.Pass = []string{"PYTHONPATH"} },
		"a function as a variable":           func(p *hostexec.Program) { p.Pass = []string{"BASH_FUNC_ls%%"} },
		"a cgroup that is not there":         func(p *hostexec.Program) { p.Cgroup = in("none") },
	} {
		var out bytes.Buffer
		p := sh(t, "echo ran", &out)
		p.Boxes = hostexec.WrittenIn(boxed)
		if code, err := hostexec.Run(t.Context(), p); err != nil || out.String() != "ran\n" {
			t.Fatalf("the control: %d, %v", code, err)
		}
		out.Reset()
		change(&p)
		if code, err := hostexec.Run(t.Context(), p); err == nil || out.Len() > 0 {
			t.Errorf("%s: got %d, %q, want a refusal", name, code, out.String())
		}
	}
	// The control: words, addresses and scripts in arguments that name no place that a box
	// can write.
	var out bytes.Buffer
	p := sh(t, "echo ran", &out)
	p.Boxes = hostexec.WrittenIn(boxed, "/vault")
	for _, arg := range []string{"vault", "op://store/item", "https://a.example/x?y=/z", in("proper"), "-I" + in("proper"), "pass show a/b", "a=b:c@d", strings.Repeat("x/", 3000), strings.Repeat("y", 300) + "/z", "\xff/\n", "cat <" + in("proper/x") + "; echo \"$(id)\""} {
		out.Reset()
		p.Argv = []string{"sh", "-c", "echo ran", arg}
		if _, err := hostexec.Run(t.Context(), p); err != nil || out.String() != "ran\n" {
			t.Errorf("the argument %.50q: %v", arg, err)
		}
	}
	out.Reset()
	// If boxes can write a directory through a link, they can also write the directory
	// under its own name.
	p = sh(t, "echo ran", &out)
	p.Boxes, p.Dir = hostexec.WrittenIn(in("in")), in("boxed/bin")
	if _, err := hostexec.Run(t.Context(), p); err == nil {
		t.Error("a workspace that is named by a link is written under its own name")
	}
}

// TestEnvironment checks that a program gets the listed variables and those that its caller
// names, a PATH without entries that a box can write or that depend on the working
// directory, and never a variable through which code gets in.
func TestEnvironment(t *testing.T) {
	boxed := t.TempDir()
	for _, name := range []string{"PATH", "HOME", "TZ"} {
		t.Setenv(name, os.Getenv(name)) // so that the test restores the variable
	}
	t.Setenv("PATH", strings.Join([]string{"", ".", "bin", boxed, filepath.Join(boxed, "bin"), "/usr/bin", "/bin"}, ":"))
	t.Setenv("HOME", "/")
	t.Setenv("LC_MESSAGES", "C")
	t.Setenv("TOKEN", "t")
	t.Setenv("OTHER", "o")
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "BASH_FUNC_ls%%", "SHELLOPTS", "PS4", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME",
		"NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_GLOBAL",
		"MAKEFLAGS", "EDITOR", "PAGER", "LESSOPEN", "JAVA_TOOL_OPTIONS", "npm_config_prefix",
	} {
		t.Setenv(name, boxed+"/x")
		if hostexec.CheckPass(name) == nil {
			t.Errorf("%s can be passed", name)
		}
	}
	var out bytes.Buffer
	p := sh(t, "env", &out)
	p.Boxes, p.Pass, p.Env, p.Inherit = hostexec.WrittenIn(boxed), []string{"TOKEN"}, []string{"OWN=1"}, os.Environ()
	if code, err := hostexec.Run(t.Context(), p); code != 0 || err != nil {
		t.Fatalf("got %d, %v", code, err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"PATH": "/usr/bin:/bin", "TOKEN": "t", "OWN": "1", "OTHER": "", "LC_MESSAGES": "C", "PYTHONSAFEPATH": "1", "HOME": "/",
		"GIT_DIR": "/dev/null", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false", "GIT_CONFIG_VALUE_1": "/dev/null",
		"GIT_CEILING_DIRECTORIES": boxed,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if strings.Contains(strings.ReplaceAll(out.String(), "GIT_CEILING_DIRECTORIES="+boxed, ""), boxed) {
		t.Errorf("a variable names the place of boxes:\n%s", out.String())
	}
	// Without a PATH, the standard directories of the system are searched.
	if _, err := hostexec.WrittenIn().Find("sh", ""); err != nil {
		t.Error(err)
	}
}

// TestVariablesThatNamePlaces checks that a variable is refused if a part of its value is a
// path that a box can write.
func TestVariablesThatNamePlaces(t *testing.T) {
	dir := t.TempDir()
	boxed, link := filepath.Join(dir, "boxed"), filepath.Join(dir, "a link")
	if err := os.Mkdir(boxed, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(boxed, link); err != nil {
		t.Fatal(err)
	}
	boxes := hostexec.WrittenIn(boxed)
	for _, tt := range []struct {
		name, value string
		refused     bool
	}{
		{"HOME", boxed, true},
		{"HOME", "/home/a", false},
		{"SSL_CERT_DIR", "/etc/ssl/certs:" + boxed, true},
		{"SSL_CERT_DIR", "/etc/ssl/certs:" + link + "/certs:/x", true},
		{"SSL_CERT_DIR", "/etc/ssl/certs:/usr/share/certs", false},
		{"KRB5CCNAME", "FILE:" + boxed + "/cc", true},
		{"KRB5CCNAME", "FILE:" + link + "/cc", true},
		{"KRB5CCNAME", "DIR::" + boxed + "/cc", true},
		{"KRB5CCNAME", "FILE:/tmp/cc", false},
		{"KRB5CCNAME", "KEYRING:persistent:1000", false},
		{"XDG_CONFIG_HOME", boxed[1:] + "/config", true}, // the program runs in /
		{"TZ", ":" + boxed + "/zone", true},
		{"TZ", "Europe/Berlin", false},
		{"https_proxy", "http://proxy.example:3128/", false},
		{"DISPLAY", ":0", false},
		{"OWN_LIST", "a=b;c=" + boxed, true},
		{"OWN_LIST", "eyJh/bGci+/Zz==", false},
		{"OTHER", boxed, false}, // is not passed
		{"PATH", "/usr/bin:" + boxed, false},
		{"DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus,guid=00", false},
		{"DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/dbus-x;tcp:host=localhost,port=1", false},
		{"DBUS_SESSION_BUS_ADDRESS", "", false},
		{"DBUS_SESSION_BUS_ADDRESS", "unix:path=" + boxed + "/bus", true},
		{"DBUS_SESSION_BUS_ADDRESS", "unix:path=" + strings.ReplaceAll(boxed, "/", "%2f") + "%2fbus", true},
		{"DBUS_SESSION_BUS_ADDRESS", "tcp:host=h;" + boxed, true},
	} {
		env, err := boxes.Environ([]string{tt.name + "=" + tt.value}, []string{"OWN_LIST"}, "/")
		if (err != nil) != tt.refused {
			t.Errorf("%s=%s: got %v, want a refusal: %v", tt.name, tt.value, err, tt.refused)
		}
		if err == nil && slices.Contains(env, "OTHER="+tt.value) {
			t.Errorf("got %q, want a variable less", env)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "the variable "+tt.name+": ") {
			t.Errorf("got %v, want the name of the variable", err)
		}
	}
	// The error does not show the rest of the value, which may be a secret.
	if err := boxes.CheckVariable("X", boxed+"/x;password=letmein", "/"); err == nil || strings.Contains(err.Error(), "letmein") {
		t.Errorf("got %v", err)
	}
}

// TestBusAddress checks that the address of a message bus is passed unless it may start a
// program, and that a program runs in any case: many hosts switch the bus off by a value that
// is not an address.
func TestBusAddress(t *testing.T) {
	const name = "DBUS_SESSION_BUS_ADDRESS="
	for value, passed := range map[string]bool{
		"": true, "disabled:": true, "/dev/null": true, "none": true, "unix:path=/run/user/1000/bus,guid=00": true, "tcp:host=h,port=1;": true,
		"unixexec:path=/bin/sh,argv1=-c": false, "unix:path=/run/user/1000/bus;unixexec:path=/bin/sh": false, "/dev/null;unixexec:path=/bin/sh": false,
		"autolaunch:": false, "launchd:env=X": false, "unix:path=/%zz": false, " unixexec:path=/bin/sh": false,
	} {
		env, err := hostexec.WrittenIn("/vault").Environ([]string{name + value}, nil, "/")
		if err != nil || slices.Contains(env, name+value) != passed {
			t.Errorf("%q: passed %v, %v, want %v", value, slices.Contains(env, name+value), err, passed)
		}
	}
}

// TestVariablesThatNameNoPlaces checks that words with slashes are not taken for paths in a
// variable that contains none, even if the workspace has the name of one of the words. Such
// a path in a variable of paths is refused.
func TestVariablesThatNameNoPlaces(t *testing.T) {
	boxes := hostexec.WrittenIn("/app", "/3128")
	for _, tt := range []struct {
		name, value string
		refused     bool
	}{
		{"https_proxy", "http://app:3128", false},
		{"https_proxy", "http://app:3128/", false},
		{"https_proxy", "http://app/", false},
		{"all_proxy", "socks5h://me:word@app:3128/app", false},
		{"no_proxy", "10.0.0.0/8,app/x,app:3128/x", false},
		{"no_proxy", "10.0.0.0/8,/app/x", true},
		{"GITHUB_REPOSITORY", "app/server", false},
		{"OWN_URL", "https://h.example/login?next=/app/home", false},
		{"OWN_URL", "https://h.example/x,/app/home", true},
		{"OWN_URL", "postgres://app/db", false},
		{"OWN_URL", "postgres://app/db?sslrootcert=/app/ca.pem", true},
		{"OWN_URL", "file://app/x", true},
		{"OWN_URL", "file:///app/x", true},
		{"OWN_URL", "a=FILE://app/x", true},
		{"OWN_URL", "unix://app/sock", true},
		{"OWN_URL", "sqlite:///app/x.db", true},
		{"OWN_URL", "//app/x", true},
		{"OWN_URL", "://app/x", true},
		{"OWN_NAME", "./app/x", true},
		{"OWN_NAME", "x:../app/x", true},
		{"OWN_FILE", "app/x", true},
		{"OWN_CONFIG", "x:app/x", true},
		{"OWN_SOCKET", "https://app/x", true},
	} {
		_, err := boxes.Environ([]string{tt.name + "=" + tt.value}, []string{"OWN_URL", "OWN_NAME", "OWN_FILE", "OWN_CONFIG", "OWN_SOCKET", "GITHUB_REPOSITORY"}, "/")
		if (err != nil) != tt.refused {
			t.Errorf("%s=%s: got %v, want a refusal: %v", tt.name, tt.value, err, tt.refused)
		}
	}
	for _, name := range []string{
		"HOME", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XAUTHORITY",
		"SSH_AUTH_SOCK", "GNUPGHOME", "PASSWORD_STORE_DIR", "KRB5CCNAME", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
		"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
	} {
		for _, value := range []string{"app/x", "DIR://app/x", "/x:app/x"} {
			if _, err := boxes.Environ([]string{name + "=" + value}, nil, "/"); err == nil {
				t.Errorf("%s=%s is passed", name, value)
			}
		}
	}
}

// TestDescriptors checks that a program gets none of the descriptors with which this
// process was started. Go would pass them on.
func TestDescriptors(t *testing.T) {
	fd, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // without O_CLOEXEC, like a descriptor that a client left open
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	mine, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	var out bytes.Buffer
	p := sh(t, "for f in /proc/self/fd/*; do readlink $f; done; true", &out)
	p.Files = []*os.File{mine}
	if code, err := hostexec.Run(t.Context(), p); code != 0 || err != nil {
		t.Fatalf("got %d, %v", code, err)
	}
	if strings.Contains(out.String(), "passwd") || !strings.Contains(out.String(), "/dev/null") {
		t.Errorf("it has:\n%s", out.String())
	}
}

// TestBounds checks that a program is ended if it takes too long, writes too much, or its
// caller's context ends.
func TestBounds(t *testing.T) {
	var out bytes.Buffer
	p := sh(t, "sleep 1000 & sleep 1000", &out)
	p.Timeout = 50 * time.Millisecond
	if _, err := hostexec.Run(t.Context(), p); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Errorf("got %v", err)
	}
	p = sh(t, "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", &out)
	p.Output = 1000
	out.Reset()
	if _, err := hostexec.Run(t.Context(), p); !errors.Is(err, hostexec.ErrOutput) || out.Len() > 1001 {
		t.Errorf("got %v, %d bytes", err, out.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hostexec.Run(ctx, sh(t, "sleep 1000", &out)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsLeft checks, with each kind of fence that this user has, that the processes
// that a program started are gone when Run returns, whether the program ended by itself or
// ran out of time. A writer keeps the pipe open as long as it runs.
func TestNothingIsLeft(t *testing.T) {
	kinds := map[string]string{"a namespace or a group": ""}
	if dir := testenv.CgroupDir(t); dir != "" {
		kinds["a cgroup"] = dir
	}
	for kind, cgroup := range kinds {
		for name, script := range map[string]string{
			"that ends":     `(echo up; exec sleep 1000) >PIPE & read line <PIPE2`,
			"that does not": `(echo up; exec sleep 1000) >PIPE & sleep 1000`,
			// a process that has left the process group
			"in a session of its own": `setsid sh -c 'echo up; exec sleep 1000' >PIPE & sleep 1000`,
		} {
			if strings.Contains(script, "setsid") && os.Geteuid() != 0 && cgroup == "" {
				continue // this fence cannot kill it; see the package comment
			}
			t.Run(kind+" of one "+name, func(t *testing.T) {
				dir := t.TempDir()
				pipes := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}
				for _, pipe := range pipes {
					if err := unix.Mkfifo(pipe, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r, err := os.OpenFile(pipes[0], os.O_RDONLY|unix.O_NONBLOCK, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				goOn, err := os.OpenFile(pipes[1], os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer goOn.Close()
				var out bytes.Buffer
				p := sh(t, strings.NewReplacer("PIPE2", pipes[1], "PIPE", pipes[0]).Replace(script), &out)
				p.Cgroup = cgroup
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = hostexec.Run(ctx, p) })
				if err := unix.SetNonblock(int(r.Fd()), false); err != nil {
					t.Fatal(err)
				}
				buf := make([]byte, 8)
				for n := 0; n == 0; { // until the writer has started
					n, _ = r.Read(buf)
				}
				if strings.Contains(script, "read line") {
					fmt.Fprintln(goOn, "go on")
				} else {
					cancel()
				}
				wg.Wait()
				if n, err := r.Read(buf); n != 0 {
					t.Errorf("got %q, %v, want that the writer is gone", buf[:n], err)
				}
				if left, _ := filepath.Glob(filepath.Join(cgroup, "program-*")); cgroup != "" && len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// TestPassedHoldsNoCode checks that no variable in Passed is one that may carry code.
func TestPassedHoldsNoCode(t *testing.T) {
	for _, name := range hostexec.Passed {
		name = strings.TrimSuffix(name, "*")
		if err := hostexec.CheckPass(name); err != nil {
			t.Error(err)
		}
	}
}
