package control

import "time"

// Console says where the console of a server is.
type Console struct {
	Server int    `json:"server"`        // process id of the server
	URL    string `json:"url,omitempty"` // URL of the console; empty if the server has none
}

// ConsoleRole is the request for a link to the console.
type ConsoleRole struct {
	Role string `json:"role"` // viewer, approver or operator; operator if empty
	// Tenants are the tenants whose things the page shows; empty for all tenants.
	Tenants []string `json:"tenants,omitempty"`
}

// ConsoleLink is a link with which a person logs in at the console, once.
type ConsoleLink struct {
	Server  int       `json:"server"` // process id of the server
	URL     string    `json:"url"`
	Role    string    `json:"role"`
	Tenants []string  `json:"tenants,omitempty"`
	Until   time.Time `json:"until"` // when the link expires
}
