package act

import (
	"strings"
	"testing"
)

// TestOriginsOfSecrets checks that a secret is only for its own origin, and not for an
// origin that looks like it (BR28, BR-A27).
func TestOriginsOfSecrets(t *testing.T) {
	may := func(address, origin string) error {
		e := &engine{opts: &Options{Secrets: []Secret{{Name: "pw", Origin: "https://shop.example", Field: "password"}}}}
		top := &frame{id: "top", loader: "l", url: address}
		of := hand{&tab{e: e, target: "top", frames: map[string]*frame{"top": top}}}
		return of.mayType(aim{frame: *top}, touched{Field: "password", Origin: origin}, "pw")
	}
	for _, address := range []string{"https://shop.example/", "https://shop.example:443/login?a=b#c"} {
		if err := may(address, "https://shop.example"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, like := range []string{
		"http://shop.example", "https://shop.example.", "https://shop.example:8443", "https://xn--shp-0na.example", "https://sh\u043ep.example", "https://shop.example.evil.example", "https://www.shop.example", "https://evil.example",
		"https://shop.example@evil.example", "https://evil.example/https://shop.example", "https://shop.example%2eevil.example", "", "null", "about:blank", "about:srcdoc", "data:text/html,https://shop.example", "blob:https://shop.example/1", "filesystem:https://shop.example/1", "file:///shop.example",
	} {
		for _, origin := range []string{like, "https://shop.example"} {
			if err := may(like, origin); ReasonOf(err) != ReasonSecret || !strings.Contains(err.Error(), "the secret is for https://shop.example") {
				t.Errorf("%q of the origin %q: %v", like, origin, err)
			}
		}
	}
	if err := may("https://shop.example/", "null"); ReasonOf(err) != ReasonSecret {
		t.Errorf("a sandboxed document: %v", err)
	}
}
