package control

import "time"

// Console is where the console of a server is.
type Console struct {
	Server int    `json:"server"`        // process id
	URL    string `json:"url,omitempty"` // empty for a server without one
}

// ConsoleRole asks for a link to the console.
type ConsoleRole struct {
	Role string `json:"role"` // viewer, approver or operator; operator if empty
	// Tenants are those whose things the page shows; empty for all.
	Tenants []string `json:"tenants,omitempty"`
}

// ConsoleLink is a link by which a person logs in at the console, once.
type ConsoleLink struct {
	Server  int       `json:"server"` // process id
	URL     string    `json:"url"`
	Role    string    `json:"role"`
	Tenants []string  `json:"tenants,omitempty"`
	Until   time.Time `json:"until"` // the end of the link
}
