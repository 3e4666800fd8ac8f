package console

import (
	"crypto/cipher"
	"log/slog"
	"net/http"
	"time"

	"belljar.dev/internal/console/assets"
	"belljar.dev/internal/front"
)

// Config says where a console is.
type Config struct {
	Addr      string           // HOST:PORT
	Remote                     // for other machines
	Inherited *front.Inherited // a socket of it takes the place of Addr; nil for none
	Log       *slog.Logger
}

// Remote says how browsers of other machines reach a console. The zero value is for none.
type Remote struct {
	// URL is that of the page as browsers know it, such as https://belljar.example/console/:
	// that of Addr, or of a proxy before it. Empty for that of Addr.
	URL       string
	Cert, Key string // PEM files with the certificate of Addr and its key; empty for no TLS
	People    bool   // the policy names people
}

// Console is a listener for browsers, and who is logged in there. Its methods are safe for
// concurrent use.
type Console struct {
	front          *front.Front
	prefix         string                                      // of the paths of URL, with a slash at its end; empty for none
	who            func(*http.Request, *route) (Person, error) // returns the person of a request, or why they may not use its route
	table          []route                                     // routes; a field, since one of them, aboutMe, may not name the variable
	access         access
	views          Views
	ring           *ring
	looks          chan struct{} // see look
	known          chan struct{} // closed once the server was looked at
	chain          chain
	usage          usage
	tail           tail
	turns          turns
	seal           cipher.AEAD // of logins at a provider
	tries          tries       // to end such logins
	upstreamLogins upstreamLogins
	providerSlots  chan struct{} // holds one for each request that waits for the provider
}

// headers are those of every answer.
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

// Front is the listener, for the hand-over to another process.
func (c *Console) Front() *front.Front { return c.front }

// URL is where the page is.
func (c *Console) URL() string { return c.front.URL() + "/" + c.prefix }

// Link returns a URL by which a person logs in once, and until when. Without tenants the person
// may see those of all.
func (c *Console) Link(person string, role Role, tenants ...string) (url string, until time.Time) {
	who := Person{Name: person, Role: role, Scope: Everything()}
	if len(tenants) > 0 {
		who.Scope = ScopeOf(tenants)
	}
	code, until := c.access.code(who)
	return c.URL() + "#" + code, until
}

// Close closes the port of a console that is not served. Twice is fine.
func (c *Console) Close() { c.front.Close() }

// Look has the console look at once for changes, which become events. It does not wait
// for them.
func (c *Console) Look() { c.look() }
