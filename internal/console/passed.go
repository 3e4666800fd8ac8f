package console

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
)

// PersonHeader is the header that names the person of a request to a part, and their role.
// A front of the fleet sets it for a person who has logged in at the front; no other
// program can send a request to a part.
const PersonHeader = "Belljar-Person"

// passed is a person in the form in which a front sends them to a part.
type passed struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"` // role of a person who may see the things of all tenants
	// Some is the role of a person who may see only the things of Tenants. A worker that
	// does not know this field finds no role and refuses the request.
	Some    string   `json:"role_for_tenants,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
}

// pass adds a person to a request to a part.
func pass(h http.Header, who Person) {
	is := passed{Name: who.Name, Role: who.Role.String()}
	if !who.Scope.all {
		is.Some, is.Role, is.Tenants = is.Role, "", who.Scope.tenants
	}
	text, err := json.Marshal(is)
	if err == nil { // strings can always be written as JSON
		h.Set(PersonHeader, base64.RawURLEncoding.EncodeToString(text))
	}
}

// passedPerson returns the person of a request to a part, if they may use its route.
func passedPerson(r *http.Request, at *route) (who Person, err error) {
	var is passed
	text, err := base64.RawURLEncoding.DecodeString(r.Header.Get(PersonHeader))
	if err != nil || json.Unmarshal(text, &is) != nil || is.Name == "" || (is.Role == "") == (is.Some == "") || (is.Role == "") != (len(is.Tenants) > 0) {
		return who, fault(http.StatusUnauthorized, "the request of the front does not name the person")
	}
	scope := Everything()
	if is.Role == "" {
		scope = ScopeOf(is.Tenants)
	}
	role, err := ParseRole(is.Role + is.Some)
	if err != nil {
		return who, &Error{http.StatusUnauthorized, err}
	}
	if role < at.needs {
		return who, errRole(role, at)
	}
	return Person{Name: is.Name, Role: role, Scope: scope}, nil
}

// errRole returns the error for a role that is not enough for a route.
func errRole(role Role, at *route) error {
	return fault(http.StatusForbidden, "a %s may not do that; this action needs the role %s", role, at.needs)
}
