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

// maxDocument bounds metadata and sets of keys, in bytes.
const maxDocument = 512 << 10

// fetcher fetches the documents of one issuer. Their addresses come from the operator and
// from the issuer's metadata, and names lead where their owner wants. So each connection
// goes to a public address, or to one that the policy lists for the issuer; it is made with
// TLS, not through a proxy, and no answer leads elsewhere.
type fetcher struct {
	client http.Client
}

// newFetcher is the fetcher of an issuer. roots are the certificates that it believes; nil
// for those of the system.
func newFetcher(also []netip.Prefix, roots *x509.CertPool) *fetcher {
	dialer := &net.Dialer{
		// It sees the address that connect(2) gets, so no name can change in between.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			addr := to.Addr().Unmap()
			if !egress.Public(addr) && !slices.ContainsFunc(also, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				return fmt.Errorf("%v is not a public address; list it under addresses of the issuer if it is meant", addr)
			}
			return nil
		},
	}
	return &fetcher{client: http.Client{
		Timeout: fetchTime,
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			DisableKeepAlives:      true,
			DisableCompression:     true, // a bound on what was sent would not bound what comes of it
			MaxResponseHeaderBytes: 32 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// readBounded reads a document.
func readBounded(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, maxDocument+1))
	if err == nil && n > maxDocument {
		err = fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	return b.Bytes(), err
}
