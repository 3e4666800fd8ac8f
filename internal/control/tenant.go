package control

// Tenant describes a tenant of a server: its places, and its usage of quotas.
type Tenant struct {
	Server int           `json:"server"` // process id of the server
	Name   string        `json:"name"`
	Places []TenantPlace `json:"places"`
	Quotas []Quota       `json:"quotas"`
}

// TenantPlace is a place that a tenant enters over HTTP.
type TenantPlace struct {
	Path      string `json:"path"` // path of the place's URL
	Workspace string `json:"workspace"`
}

// Quota is a quota of a tenant, by its name in the policy.
type Quota struct {
	Name string   `json:"name"`
	Used *float64 `json:"used,omitempty"` // present usage; nil if it cannot be counted
	Most float64  `json:"limit"`
	Unit string   `json:"unit,omitempty"` // unit of Used and Most; empty for a number of things
}

// Units of quotas.
const (
	UnitBytes       = "bytes"
	UnitBytesAnHour = "bytes/h"
	UnitASecond     = "1/s"
)
