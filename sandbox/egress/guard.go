package egress

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"belljar.dev/policies"
)

// These steps, in order, keep a secret from coming back. They apply to every
// request to a host to which some request may bring a secret: a server may
// repeat in one answer what another request has brought.
//
//  1. headers of the request that ask for a part of a text, for a coding or for
//     a hash are left out: a server may always answer without them (RFC 9110,
//     14.2 and 12.5);
//  2. an answer that is still a part or has a coding is refused, because a value
//     could not be found in it;
//  3. in other answers, values are overwritten, also in the names of headers.

// added are headers with secrets, for one request.
type added struct {
	fields []field
	names  string   // names of the secrets, for records
	guards []string // the secrets of the host, which must not come back in an answer
	narrow bool     // whether some of the secrets are for some requests only
}

// guard returns the part of added that is the same for every request of the flow.
func (f *flow) guard() added {
	var a added
	for _, s := range f.snap.HostSecrets(f.rec.Host) {
		a.narrow = a.narrow || len(s.Methods)+len(s.Paths) > 0
		if !slices.Contains(a.guards, s.Secret) {
			a.guards = append(a.guards, s.Secret)
		}
	}
	return a
}

// addSecrets adds the headers that the policy has for a request of the flow. A request
// without TLS gets no headers unless a rule names its host, and not just every host, for
// its port: the author of the rule must have meant that host.
//
// The values of all secrets that must not come back are read first, also of those that this
// request does not get: the server may have received one from another box.
func (f *flow) addSecrets(ctx context.Context, a *added, scheme string, methods []string, path string) error {
	for _, name := range a.guards {
		if _, err := f.d.vault.value(ctx, name); err != nil {
			return err
		}
	}
	if scheme == "http" && !f.snap.namesPlain(f.rec.Host, f.rec.Port) {
		return nil
	}
	for _, s := range f.snap.Headers(f.rec.Host, path, methods...) {
		text, err := f.d.vault.value(ctx, s.Secret)
		if err != nil {
			return err
		}
		a.fields = append(a.fields, field{s.Header, strings.ReplaceAll(s.Value, "${secret:"+s.Secret+"}", text)})
		if a.names != "" {
			a.names += ","
		}
		a.names += s.Secret
	}
	return nil
}

// unguarded are headers that are removed from requests, because a server may answer them
// with a part of a text, with a text in a coding or character set, or with its hash: RFC
// 9110, 14 and 12.5; RFC 3229, 10.5.3; RFC 9530; and Sec-WebSocket-Extensions, which
// compress (RFC 7692). Request-Range is the former name of Range.
var unguarded = []string{
	"a-im", "accept-charset", "accept-encoding", "if-range", "range", "request-range",
	"sec-websocket-extensions", "te", "want-content-digest", "want-digest", "want-repr-digest",
}

// guarded returns the fields of a request without the unguarded ones, and with the fields
// that contain secrets. These replace fields of the box with the same names.
func (a added) guarded(fields []field) []field {
	if len(a.guards) == 0 {
		return fields
	}
	kept := slices.DeleteFunc(slices.Clone(fields), func(f field) bool {
		return slices.ContainsFunc(unguarded, func(name string) bool { return sameHeader(name, f.name) }) ||
			slices.ContainsFunc(a.fields, func(e field) bool { return sameHeader(e.name, f.name) })
	})
	return append(append(kept, a.fields...), field{"Accept-Encoding", "identity"})
}

// unclear returns why a secret could not be found in an answer, and what the agent can do
// instead; reason is "" if a secret could be found.
func (a added) unclear(method string, resp *http.Response) (reason, instead string) {
	if len(a.guards) == 0 || bodiless(method, resp.StatusCode) {
		return "", ""
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	part := resp.StatusCode == http.StatusPartialContent || resp.StatusCode == http.StatusIMUsed ||
		resp.Header.Get("Content-Range") != "" && resp.StatusCode != http.StatusRequestedRangeNotSatisfiable
	const had = "requests to this host may carry a secret, and the server, which has received this one, answered with "
	switch {
	case part, strings.EqualFold(kind, "multipart/byteranges"), err != nil && strings.Contains(lower(kind), "byteranges"):
		return fmt.Sprintf("%sa part of a text (status %d), in which a secret that comes back in pieces cannot be found", had, resp.StatusCode), "Ask for the whole text."
	case !slices.Contains([]string{"", "gzip"}, coding(resp.Header)):
		return had + "a text in a coding that the door does not decode (Content-Encoding), in which a secret that comes back cannot be found", "Ask for a form of it that is not compressed, or is compressed with gzip."
	}
	return "", ""
}

// bodiless reports whether an answer has no body (RFC 9112, 6.3).
func bodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}

// coding returns how a body is coded; "" for a body that is not coded.
func coding(h http.Header) string {
	var all []string
	for c := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		switch c = lower(strings.Trim(c, " \t")); c {
		case "", "identity":
		case "x-gzip": // RFC 9110, 8.4.1.3
			all = append(all, "gzip")
		default:
			all = append(all, c)
		}
	}
	return strings.Join(all, ",")
}

// clear returns the body of an answer that unclear has accepted, decoded and with the
// values of secrets overwritten.
func (a added) clear(resp *http.Response, m *masker) io.Reader {
	content := io.Reader(resp.Body)
	if len(a.guards) == 0 {
		return content
	}
	if coding(resp.Header) == "gzip" {
		content = &unzipped{from: content}
	}
	if m == nil {
		return content
	}
	return newMasked(content, m)
}

// unzipped decodes gzip. It starts with the first Read, because the head of the answer does
// not wait for its body.
type unzipped struct {
	from io.Reader
	zip  *gzip.Reader
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.zip == nil {
		var err error
		if u.zip, err = gzip.NewReader(u.from); err != nil {
			return 0, err
		}
	}
	return u.zip.Read(p)
}

// namesPlain reports whether a rule names the host, and not just every host,
// for a port on which requests go in the clear.
func (s *snapshot) namesPlain(h policies.Host, port uint16) bool {
	if port == 443 {
		return false
	}
	for _, r := range s.Allow {
		below, wild := strings.CutPrefix(r.Host, "*")
		named := wild && below != "" && strings.HasSuffix(h.Name(), below)
		if !wild {
			exact, err := policies.ParseHost(r.Host)
			named = err == nil && exact == h
		}
		for _, p := range r.Ports {
			if named && p == port {
				return true
			}
		}
	}
	return s.AllowsPrivate(h, port)
}
