package console

import (
	"crypto/cipher"
	"log/slog"
	"net/http"
	"time"

	"belljar.dev/internal/console/assets"
	"belljar.dev/internal/front"
)

// Config is the configuration of a console.
type Config struct {
	Addr      string           // address in the form HOST:PORT
	Remote                     // settings for browsers on other machines
	Inherited *front.Inherited // inherited sockets; the one for the console takes the place of Addr; may be nil
	Log       *slog.Logger
}

// Remote describes how browsers on other machines reach a console. The zero value allows no
// other machines.
type Remote struct {
	// URL is the URL of the page as browsers know it, for example
	// https://belljar.example/console/. It leads to Addr, or to a proxy before it. If URL
	// is empty, browsers use Addr.
	URL       string
	Cert, Key string // PEM files with the certificate of Addr and its key; empty without TLS
	People    bool   // whether the policy names people
}

// Console is a listener for browsers, and the people who have logged in there. Its methods
// are safe for concurrent use.
type Console struct {
	front *front.Front
	// path of URL, with a slash at its end; empty if URL has no path
	prefix string
	// returns the person of a request, or an error if they may not use its route
	who func(*http.Request, *route) (Person, error)
	// routes; a field, because aboutMe is one of the routes and may not name the variable
	table          []route
	access         access
	views          Views
	ring           *ring
	looks          chan struct{} // see look
	known          chan struct{} // closed after the first look at the server
	chain          chain
	usage          usage
	tail           tail
	turns          turns
	seal           cipher.AEAD // encrypts pending logins at a provider
	tries          tries       // counts attempts to end such logins
	upstreamLogins upstreamLogins
	providerSlots  chan struct{} // contains one element for each request that waits for the provider
}

// headers returns the headers of every answer.
func headers() http.Header {
	h := http.Header{}
	for _, one := range [][2]string{
		{"Content-Security-Policy", assets.ContentSecurityPolicy},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Cross-Origin-Embedder-Policy", "require-corp"},
		{"Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"},
	} {
		h.Set(one[0], one[1])
	}
	return h
}

// Front returns the listener, for the hand-over to another process.
func (c *Console) Front() *front.Front { return c.front }

// URL returns the URL of the page.
func (c *Console) URL() string { return c.front.URL() + "/" + c.prefix }

// Link returns a URL with which a person logs in once, and when the URL expires. Without
// tenants, the person may see the things of all tenants.
func (c *Console) Link(person string, role Role, tenants ...string) (url string, until time.Time) {
	who := Person{Name: person, Role: role, Scope: Everything()}
	if len(tenants) > 0 {
		who.Scope = ScopeOf(tenants)
	}
	code, until := c.access.code(who)
	return c.URL() + "#" + code, until
}

// Close closes the port of a console that is not served. It may be called several times.
func (c *Console) Close() { c.front.Close() }

// Look makes the console look for changes immediately; changes become events. It does not
// wait for them.
func (c *Console) Look() { c.look() }
