package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"belljar.dev/internal/front"
	"belljar.dev/internal/server"
	"belljar.dev/policies"
)

// httpFlag is the flag that all other flags of a server over HTTP need.
const httpFlag = "http"

// httpFlags adds the flags for where and how a server serves HTTP.
func httpFlags(c *cobra.Command, cfg *front.Config, places *placeFlag, also *server.Transports) {
	c.Flags().StringVar(&cfg.Addr, httpFlag, "", "serve HTTP on this `address`, such as 127.0.0.1:8930")
	of := pflag.NewFlagSet(httpFlag, pflag.ContinueOnError)
	listenFlags(of, cfg)
	of.BoolVar(&also.SSE, "legacy-sse", false, "serve clients of 2024-11-05 as well, at /sse")
	of.BoolVar(&also.Sockets, "websocket", false, "serve WebSockets as well, at /mcp")
	of.Var(places, "place", "a further place, `NAME=DIR`: clients work in the directory DIR at /w/NAME/mcp; may be repeated; not with a policy that names tenants, which says itself where they work")
	of.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{httpFlag: {"true"}} })
	c.Flags().AddFlagSet(of)
}

// listenFlags adds the flags for how a server listens for clients over HTTP.
func listenFlags(of *pflag.FlagSet, cfg *front.Config) {
	cfg.Connections = front.Connections
	of.StringVar(&cfg.Cert, "tls-cert", "", "PEM `file` with the certificate of the server and its intermediate certificates; it is read again when it changes")
	of.StringVar(&cfg.Key, "tls-key", "", "PEM `file` with the key of the certificate")
	of.StringVar(&cfg.ClientCA, "tls-client-ca", "", "`file` with the authorities of clients; each client must have a certificate of one of them")
	of.StringSliceVar(&cfg.Proxies, "behind-proxy", nil, "`network` of the proxies before this server, such as 10.0.0.0/8; separate several by commas; without TLS, others get no answer")
	of.StringVar(&cfg.PublicURL, "public-url", "", "`URL` by which clients know this server, such as https://belljar.example")
	of.StringArrayVar(&cfg.Hosts, "host", nil, "further `name` of this server in the Host header; may be repeated")
	of.StringArrayVar(&cfg.Origins, "origin", nil, "`origin` of web pages that may use this server, such as https://app.example; may be repeated")
	of.Var((*countFlag)(&cfg.Connections), "connections", "`number` of connections that one address may have open, except loopback and proxies")
	of.StringVar(&cfg.AccessLog, "access-log", "", "`file` that gets a line of JSON for each request, or - for standard output; SIGHUP opens it again")
}

// adminFlag adds the flag for the address of probes and metrics.
func adminFlag(c *cobra.Command, addr *string) {
	const name = "admin"
	c.Flags().StringVar(addr, name, "", "answer /livez, /readyz and /metrics on this loopback `address`, such as 127.0.0.1:9464, or unix:PATH")
	c.Flags().Lookup(name).Annotations = map[string][]string{httpFlag: {"true"}}
}

// placeFlag is the flag --place: a name and its directory.
type placeFlag map[string]string

func (p *placeFlag) String() string { return "" }

// Type returns the name of the value in usage texts, if the text of the flag does not name
// it.
func (p *placeFlag) Type() string { return "NAME=DIR" }

// Set adds one place.
func (p *placeFlag) Set(text string) error {
	name, dir, ok := strings.Cut(text, "=")
	switch {
	case !ok || dir == "":
		return errors.New("want NAME=DIR, for example site=/srv/site")
	case !policies.IsName(name):
		return fmt.Errorf("%q cannot be the name of a place; %s", name, policies.NameShape)
	case (*p)[name] != "":
		return fmt.Errorf("the place %s is named twice", name)
	}
	if *p == nil {
		*p = make(placeFlag)
	}
	(*p)[name] = dir
	return nil
}

// withHTTP refuses flags of a server over HTTP in a server over stdio.
func withHTTP(c *cobra.Command) (err error) {
	if c.Flags().Changed(httpFlag) {
		return nil
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Annotations[httpFlag] != nil && err == nil {
			err = usage("--%s needs --http", f.Name)
		}
	})
	return err
}
