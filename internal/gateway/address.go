package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// An upstream may ask the person at a client to open an address in a browser (elicitation
// in URL mode). The address comes from a stranger. Therefore the person reads which
// upstream asks and which host the address has, and only addresses on the internet are
// passed on.

// addressCode is the code of the error with which a server of 2025-11-25 says that
// addresses must be opened before it can answer ("URL Elicitation Required Error").
const addressCode = -32042

const (
	addressBytes       = 2048
	addressesMost      = 4  // number of addresses in one error
	askedAddressesMost = 64 // number of addresses of one server whose end its client may be notified of
)

// address is an address that a server wants a person to open.
type address struct {
	ID      string `json:"elicitationId"` // id from the server; empty in 2026-07-28
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`

	host policies.Host
}

// readAddress parses the params of elicitation/create in URL mode. It accepts only https
// URLs with a name that anybody can resolve: a stranger must not lead the person's browser
// to services that trust this machine or its network.
func readAddress(params json.RawMessage) (a address, err error) {
	if err := json.Unmarshal(params, &a); err != nil {
		return a, fmt.Errorf("the params cannot be read: %w", err)
	}
	if len(a.URL) > addressBytes {
		return a, fmt.Errorf("the address has %d bytes, and at most %d are passed on", len(a.URL), addressBytes)
	}
	if strings.ContainsFunc(a.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return a, errors.New("the address has characters that a URL does not have")
	}
	u, err := policies.ParseURL(a.URL)
	if err != nil {
		return a, fmt.Errorf("the address is not passed on: %w", err)
	}
	if a.host, err = policies.ParseHost(u.Hostname()); err != nil {
		return a, fmt.Errorf("the address is not passed on: %w", err)
	}
	switch {
	case u.Scheme != "https":
		return a, fmt.Errorf("the address begins with %.20q, and only https is passed on", u.Scheme)
	case !a.host.Public():
		return a, fmt.Errorf("the host %s of the address is not a public name", a.host)
	}
	a.URL = u.String() // with the host in the form that the person reads
	return a, nil
}

// form returns the question for the person.
func (a address) form(server string) mcp.Form {
	var b strings.Builder
	fmt.Fprintf(&b, "The server %s asks you to open an address of the host %s in a browser, and learns whether you agree. ", upstream.Line(server), a.host)
	b.WriteString("belljar does not know the page. Open it only if you know this host, and enter there only what belongs to it.")
	if strings.Contains("."+a.host.Name(), ".xn--") {
		b.WriteString(" The name of the host has letters that can look like others.")
	}
	fmt.Fprintf(&b, "\n\n%s", a.URL)
	if a.Message != "" {
		fmt.Fprintf(&b, "\n\nThe server says: %s", readable(a.Message))
	}
	return mcp.Form{Message: b.String(), URL: a.URL}
}

// askAddress asks the person at the client of a call to open an address.
func (c *conn) askAddress(ctx context.Context, run *running, id string, params json.RawMessage) (json.RawMessage, error) {
	a, err := readAddress(params)
	if err != nil {
		return nil, wire.Errorf(wire.InvalidParams, "%v", err)
	}
	if why := c.whyNoAddress(run.now()); why != "" {
		return nil, wire.Errorf(wire.InvalidRequest, "%s", why)
	}
	c.addresses.put(a.ID, askedAddress{run.call.Session, id})
	said, err := c.question(ctx, run, id, a.form(c.server.Name))
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"action": agreed(said)})
}

// whyNoAddress returns why no person can be asked to open an address of the server; empty
// if a person can be asked.
func (c *conn) whyNoAddress(call mcp.Call) string {
	switch {
	case !c.server.Trusted:
		return "agents can write the file of this server, so nobody is asked to open its addresses"
	case call.Opens() == mcp.NotAsked:
		return "the client of this call does not open addresses"
	}
	return ""
}

// agreed returns the action of the answer to a question without fields. An answer that
// arrived too quickly for a person to have read the question is not an agreement.
func agreed(a mcp.FormAnswer) string {
	if a.Action == mcp.FormAccepted && (a.Itself() || a.Sample != nil) {
		return mcp.FormDismissed
	}
	return a.Action
}

// askAddresses handles the error of a call whose server wants addresses to be opened first.
// A client that is asked by requests knows this error, and gets it with the addresses that
// may be opened. A client of 2026-07-28 is asked by the result of its call. If the person
// agrees, again is true: the call is made again, because the server has done nothing yet and
// that client would do the same.
func (c *conn) askAddresses(ctx context.Context, run *running, e *peer.Error) (again bool, _ error) {
	refused := func(why string) error {
		return fmt.Errorf("the server %s asks that a person opens an address first, and the call was not made: %s. Go on without the tool, and tell the person you work for", upstream.Line(c.server.Name), why)
	}
	all, err := readAddresses(e.Data)
	if err != nil {
		return false, refused(err.Error())
	}
	call := run.now()
	if why := c.whyNoAddress(call); why != "" {
		return false, refused(why)
	}
	if run.quiet || run.kept == nil && call.Opens() != mcp.AskedNow {
		return false, refused("nobody can be asked during this call")
	}
	shown := make([]map[string]string, len(all))
	for i, a := range all {
		n := c.countAsked(run)
		if n > askedMost {
			return false, refused(fmt.Sprintf("one call may ask at most %d times", askedMost))
		}
		id := c.questionID(n, e.Data)
		if run.kept == nil {
			f := a.form(c.server.Name)
			shown[i] = map[string]string{"mode": "url", "elicitationId": id, "url": f.URL, "message": f.Message}
			c.addresses.put(a.ID, askedAddress{call.Session, id})
			continue
		}
		said, err := c.question(ctx, run, id, a.form(c.server.Name))
		switch {
		case err != nil:
			return false, err
		case agreed(said) != mcp.FormAccepted:
			return false, refused("the person has not agreed to it")
		}
	}
	if run.kept != nil {
		return true, nil
	}
	data, err := json.Marshal(map[string]any{"elicitations": shown})
	if err != nil {
		return false, err
	}
	return false, &mcp.RemoteError{Code: e.Code, Message: e.Message, Data: data, Addresses: true}
}

// readAddresses parses the data of an error that names addresses.
func readAddresses(data json.RawMessage) (all []address, err error) {
	list := wire.Member(data, "elicitations")
	if len(list) == 0 || list[0] != '[' {
		return nil, errors.New("its error names no address")
	}
	wire.Elements(list, func(value []byte) bool {
		var a address
		if len(all) == addressesMost {
			err = fmt.Errorf("its error names more than %d addresses", addressesMost)
		} else if a, err = readAddress(value); err == nil {
			all = append(all, a)
		}
		return err == nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("its error names no address")
	}
	return all, err
}
