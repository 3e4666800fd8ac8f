package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"

	"belljar.dev/sandbox/egress"
)

// maxDocument is the maximum size of metadata and of sets of keys, in bytes.
const maxDocument = 512 << 10

// fetcher fetches the documents of one issuer. Their addresses come from the operator and
// from the issuer's metadata, and the owner of a host name chooses its address. Therefore
// each connection goes to a public address, or to an address that the policy lists for the
// issuer. It uses TLS and no proxy, and redirects are not followed.
type fetcher struct {
	client http.Client
}

// newFetcher returns the fetcher of an issuer. also are the addresses that it may connect
// to in addition to public ones. roots are the certificates that it trusts; nil means those
// of the system.
func newFetcher(also []netip.Prefix, roots *x509.CertPool) *fetcher {
	dialer := &net.Dialer{
		// ControlContext gets the address that connect(2) uses, so a name cannot change
		// between the check and the connection.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			addr := to.Addr().Unmap()
			if !egress.Public(addr) && !slices.ContainsFunc(also, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				return fmt.Errorf("%v is not a public address; if it is right, list it under addresses of the issuer", addr)
			}
			return nil
		},
	}
	return &fetcher{client: http.Client{
		Timeout: fetchTime,
		Transport: &http.Transport{
			DialContext:       dialer.DialContext,
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			DisableKeepAlives: true,
			// the size limit applies to the bytes that are sent, not to what they
			// decompress to
			DisableCompression:     true,
			MaxResponseHeaderBytes: 32 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// readBounded reads a document of at most maxDocument bytes.
func readBounded(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, maxDocument+1))
	if err == nil && n > maxDocument {
		err = fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	return b.Bytes(), err
}
