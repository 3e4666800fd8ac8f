package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"

	"belljar.dev/internal/control"
	"belljar.dev/sandbox"
)

// boxHandlers answers the requests of other commands about boxes.
type boxHandlers struct{ sandbox *sandbox.Supervisor }

// handle adds the routes for `belljar ps` and `belljar ports`.
func (c *boxHandlers) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /boxes", c.list)
	mux.HandleFunc("POST /publish", c.publish)
	mux.HandleFunc("POST /unpublish", c.unpublish)
}

func (c *boxHandlers) list(w http.ResponseWriter, _ *http.Request) {
	control.Respond(w, http.StatusOK, c.all())
}

// all returns the open boxes.
func (c *boxHandlers) all() []control.Box {
	infos := []control.Box{}
	for _, b := range c.sandbox.Boxes() {
		used := b.Used()
		info := control.Box{
			Server: os.Getpid(), ID: control.ShortBox(b.ID()), Tenant: b.Grant().Tenant(), Profile: b.Grant().Profile(),
			Listening: []uint16{}, Published: published(b), Browser: b.Grant().OfBrowser(),
			Memory: used.Memory, MemoryLimit: b.Grant().Limits().Memory, CPU: used.CPU.Milliseconds(), Processes: used.Processes,
			Network: used.Network, Disk: used.Disk,
		}
		for _, j := range b.Jobs() {
			if j.Status() == sandbox.Running {
				info.Jobs++
			}
		}
		if ports, err := b.Listening(); err == nil { // a box that has just ended has no ports
			info.Listening = append(info.Listening, ports...)
		}
		infos = append(infos, info)
	}
	return infos
}

func published(b *sandbox.Box) []control.Published {
	infos := []control.Published{}
	for _, p := range b.Published() {
		infos = append(infos, control.Published{Box: control.ShortBox(b.ID()), Port: p.Port, At: p.At.String()})
	}
	return infos
}

// publish handles a request to publish a port of a box on the host.
func (c *boxHandlers) publish(w http.ResponseWriter, r *http.Request) {
	want, box, err := c.wanted(r)
	if err != nil {
		control.Respond(w, http.StatusBadRequest, err.Error())
		return
	}
	at, err := control.HostPort(want.At)
	if err != nil {
		control.Respond(w, http.StatusBadRequest, err.Error())
		return
	}
	p, err := box.Publish(r.Context(), want.Port, at)
	if err != nil {
		control.Respond(w, http.StatusConflict, err.Error())
		return
	}
	control.Respond(w, http.StatusOK, control.Published{Box: control.ShortBox(box.ID()), Port: p.Port, At: p.At.String()})
}

// unpublish handles a request to close published ports of a box.
func (c *boxHandlers) unpublish(w http.ResponseWriter, r *http.Request) {
	want, box, err := c.wanted(r)
	if err != nil {
		control.Respond(w, http.StatusBadRequest, err.Error())
		return
	}
	// If the request names no address, all addresses of the port are closed.
	var closed []string
	for _, p := range box.Published() {
		if p.Port == want.Port && (want.At == "" || want.At == p.At.String()) {
			p.Close()
			closed = append(closed, p.At.String())
		}
	}
	if len(closed) > 0 {
		control.Respond(w, http.StatusOK, control.Published{Box: control.ShortBox(box.ID()), Port: want.Port, At: strings.Join(closed, " ")})
		return
	}
	control.Respond(w, http.StatusConflict, fmt.Sprintf("port %d of box %s is not published", want.Port, control.ShortBox(box.ID())))
}

// wanted returns the content of a request, and the box that it names.
func (c *boxHandlers) wanted(r *http.Request) (want control.Published, box *sandbox.Box, err error) {
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		return want, nil, fmt.Errorf("read request: %w", err)
	}
	box, err = c.find(want.Box)
	return want, box, err
}

// errNoBox is the error for an ID that no box has.
var errNoBox = errors.New("`belljar ps` lists them")

// find returns the box with an ID, which may be shortened.
func (c *boxHandlers) find(id string) (*sandbox.Box, error) {
	var found []*sandbox.Box
	for _, b := range c.sandbox.Boxes() {
		if b.ID() == id {
			return b, nil
		}
		if control.ShortBox(b.ID()) == control.ShortBox(id) {
			found = append(found, b)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no box %q; %w", id, errNoBox)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d boxes have ids that begin with %q; give more of the id", len(found), id)
}

// A server of many tenants has room for the boxes that their quotas allow. leastBoxes is
// the number of boxes that one client may have. With maxBoxes boxes, the kernel still finds
// their control groups and processes quickly.
const (
	leastBoxes = 64
	maxBoxes   = 1024
	// boxFiles is the most files that an idle box keeps open in this process: its init,
	// namespaces, door and control groups.
	boxFiles = 32
)

// mostBoxes returns the most boxes that all tenants together may have open, if this process
// may open files files. Half of the files are for boxes, and the rest is for connections.
func mostBoxes(files uint64) int {
	return int(min(max(files/2/boxFiles, leastBoxes), maxBoxes))
}

// openFiles returns the most files that this process may have open.
func openFiles() uint64 {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	return files.Cur
}
