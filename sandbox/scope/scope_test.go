package scope

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// manager is a service manager for tests.
type manager struct {
	asked   []string       // methods that were called, in order
	unit    string         // unit that was started
	values  map[string]any // properties of the unit
	refuse  string         // method that fails
	deaf    bool           // whether it answers the first message only after a second one
	results []string       // results of the jobs that end after the unit was started; the last is its own
}

// listen makes the manager answer one connection, and returns the path of its socket. The
// caller may look at the manager after wait has returned.
func (m *manager) listen(t *testing.T) (path string, wait func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		m.serve(t, c)
	}()
	wait = func() { l.Close(); <-ended }
	t.Cleanup(wait)
	return path, wait
}

// serve speaks like dbus-daemon(1): first lines of text, then messages.
func (m *manager) serve(t *testing.T, c net.Conn) {
	in := bufio.NewReader(c)
	for _, talk := range [][2]string{{"\x00AUTH", "REJECTED EXTERNAL"}, {"AUTH EXTERNAL", "DATA"}, {"DATA", "OK 00"}, {"BEGIN", ""}} {
		line, err := in.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, talk[0]) {
			t.Errorf("the greeting is %q, %v; want %q", line, err, talk[0])
			return
		}
		if talk[1] != "" {
			if _, err := c.Write([]byte(talk[1] + "\r\n")); err != nil {
				t.Error(err)
			}
		}
	}
	for serial := uint32(1); ; serial += 10 {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return // the other side has hung up
		}
		method, _ := call.Headers[dbus.FieldMember].Value().(string)
		if m.deaf {
			m.deaf = false
			next, err := dbus.DecodeMessage(in)
			if err != nil {
				t.Error(err)
				return
			}
			if flags := next.Flags; flags&dbus.FlagNoReplyExpected == 0 {
				t.Errorf("the second message has the flags %v, want that none answers it", flags)
			}
		}
		if call.Flags&dbus.FlagNoReplyExpected != 0 {
			continue
		}
		m.asked = append(m.asked, method)
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}}
		switch method {
		case m.refuse:
			reply.Type = dbus.TypeError
			reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.DBus.Error.AccessDenied")
			setBody(reply, "not you")
		case "Hello":
			setBody(reply, ":1.7")
		case "StartTransientUnit":
			m.start(t, call)
			setBody(reply, dbus.ObjectPath("/job/1"))
		}
		send(c, reply, serial)
		if method != "StartTransientUnit" || reply.Type == dbus.TypeError {
			continue
		}
		for i, result := range m.results {
			job := dbus.ObjectPath("/job/1")
			if i+1 < len(m.results) {
				job = "/job/another"
			}
			ended := &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
				dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(managerPath)), dbus.FieldInterface: dbus.MakeVariant(managerType),
				dbus.FieldMember: dbus.MakeVariant("JobRemoved"), dbus.FieldSender: dbus.MakeVariant(":1.1"),
			}}
			setBody(ended, uint32(i), job, m.unit, result)
			send(c, ended, serial+1+uint32(i))
		}
	}
}

func (m *manager) start(t *testing.T, call *dbus.Message) {
	var mode string
	var properties []property
	var auxiliary []any
	if err := dbus.Store(call.Body[:3], &m.unit, &mode, &properties); err != nil || mode != "fail" {
		t.Errorf("a unit is started by %v, mode %q: %v", call.Body, mode, err)
	}
	if signature := call.Headers[dbus.FieldSignature].Value(); signature != dbus.ParseSignatureMust("ssa(sv)a(sa(sv))") {
		t.Errorf("the arguments are %v %v, want what systemd takes", signature, auxiliary)
	}
	m.values = map[string]any{}
	for _, p := range properties {
		m.values[p.Name] = p.Value.Value()
	}
}

func setBody(m *dbus.Message, values ...any) {
	m.Body = values
	m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(values...))
}

// send writes a message. The other side need not read it.
func send(c net.Conn, m *dbus.Message, serial uint32) {
	var text strings.Builder
	if err := m.EncodeTo(&text, binary.LittleEndian); err != nil {
		panic(err)
	}
	raw := []byte(text.String())
	binary.LittleEndian.PutUint32(raw[8:], serial) // a message that was not read has no serial
	_, _ = c.Write(raw)
}

// A manager is asked for a delegated scope with the calling process. start waits until the
// job that the manager named has ended: the end of another job says nothing.
func TestStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bus   bool
		deaf  bool
		asked []string
	}{
		{"bus", true, false, []string{"Hello", "Ping", "AddMatch", "Subscribe", "StartTransientUnit"}},
		{"private socket that forgets the first message", false, true, []string{"Ping", "Subscribe", "StartTransientUnit"}},
		{"private socket", false, false, []string{"Ping", "Subscribe", "StartTransientUnit"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &manager{results: []string{"failed", "done"}, deaf: tt.deaf}
			path, wait := m.listen(t)
			// No manager is at the first place.
			if err := start(t.Context(), []socket{{path + ".none", true}, {path, tt.bus}}, "a.scope"); err != nil {
				t.Fatal(err)
			}
			wait()
			want := map[string]any{"Delegate": true, "PIDs": []uint32{0}, "Description": "Boxes of belljar", "CollectMode": "inactive-or-failed"}
			if m.unit != "a.scope" || !reflect.DeepEqual(m.values, want) || !reflect.DeepEqual(m.asked, tt.asked) {
				t.Errorf("asked %q for %q with %v, want %q with %v", m.asked, m.unit, m.values, tt.asked, want)
			}
		})
	}
}

// A bus may have no manager. The next place is then asked, and the error says that there is
// no manager if that was the last.
func TestStartFindsTheManager(t *testing.T) {
	empty := &manager{refuse: "Ping"}
	bus, _ := empty.listen(t)
	m := &manager{results: []string{"done"}}
	private, wait := m.listen(t)
	if err := start(t.Context(), []socket{{bus, true}, {private, false}}, "a.scope"); err != nil {
		t.Fatal(err)
	}
	wait()
	if m.unit != "a.scope" {
		t.Errorf("the manager started %q", m.unit)
	}
	bus, _ = (&manager{refuse: "Ping"}).listen(t)
	if err := start(t.Context(), []socket{{bus, true}}, "a.scope"); !errors.Is(err, ErrNoManager) {
		t.Errorf("got %v, want that there is no manager", err)
	}
}

func TestStartFails(t *testing.T) {
	t.Run("nobody", func(t *testing.T) {
		err := start(t.Context(), sockets(-1), "a.scope")
		if !errors.Is(err, ErrNoManager) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want that there is no manager", err)
		}
	})
	for _, tt := range []struct {
		name string
		m    manager
		want string
	}{
		{"the job fails", manager{results: []string{"done", "failed"}}, `the job ended as "failed"`},
		{"no subscription", manager{refuse: "Subscribe"}, "not you"},
		{"no unit", manager{refuse: "StartTransientUnit"}, "not you"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, _ := tt.m.listen(t)
			if err := start(t.Context(), []socket{{path, true}}, "a.scope"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A manager that sends nothing, or nothing more, delays nobody for longer than the context
// allows.
func TestStartEndsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	t.Run("before the greeting", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bus")
		l, err := net.Listen("unix", path) // the kernel connects, but nobody accepts
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
		defer cancel()
		if err := start(ctx, []socket{{path, true}}, "a.scope"); !errors.Is(err, gone) || !errors.Is(err, ErrNoManager) {
			t.Errorf("got %v, want that there is no manager since %q", err, gone)
		}
	})
	t.Run("before the job has ended", func(t *testing.T) {
		m := &manager{}
		path, _ := m.listen(t)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if err := start(ctx, []socket{{path, false}}, "a.scope"); !errors.Is(err, gone) {
			t.Errorf("got %v, want %q", err, gone)
		}
	})
}

// A manager that sends without end is not read forever.
func TestStartReadsSoMuch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	talked := make(chan struct{})
	go func() {
		defer close(talked)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		line := []byte(strings.Repeat("x", 4096))
		for err == nil { // until the other side hangs up
			_, err = c.Write(line)
		}
	}()
	if err := start(t.Context(), []socket{{path, true}}, "a.scope"); !errors.Is(err, ErrNoManager) {
		t.Errorf("got %v, want that there is no manager", err)
	}
	<-talked
}

func TestUnitOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/user.slice/user-1000.slice/session-3.scope\n":                                          "session-3.scope",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/belljar-7.8.scope/supervisor\n": "belljar-7.8.scope",
		"0::/system.slice/belljar.service\n":                                                        "belljar.service",
		"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n":                             "init.scope",
		"0::/\n":                                 "",
		"0::/../../user.slice\n":                 "",
		"4:memory:/x.service\n0::/a.scope\n":     "a.scope",
		"4:memory:/x.service\n1:name=y:/z.scope": "",
		"":                                       "",
	} {
		file := filepath.Join(t.TempDir(), "cgroup")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := unitOf(file); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

// A service is not left, because its limits and its end are for everything that it started.
func TestMayLeave(t *testing.T) {
	for unit, want := range map[string]bool{
		"session-3.scope": true, "vte-spawn-1.scope": true, "init.scope": true, "": true,
		"app-code@7.service": true, "belljar.service": false, "user@1000.service": false, "app.service": false,
	} {
		if got := mayLeave(unit); got != want {
			t.Errorf("%q: got %v, want %v", unit, got, want)
		}
	}
}
