package control

// Tenant is a tenant of a server: where it works, and what it uses of its quotas.
type Tenant struct {
	Server int           `json:"server"` // process id
	Name   string        `json:"name"`
	Places []TenantPlace `json:"places"`
	Quotas []Quota       `json:"quotas"`
}

// TenantPlace is a place that a tenant enters over HTTP.
type TenantPlace struct {
	Path      string `json:"path"` // of its URL
	Workspace string `json:"workspace"`
}

// Quota is a quota of a tenant, by its name in the policy.
type Quota struct {
	Name string   `json:"name"`
	Used *float64 `json:"used,omitempty"` // nil for what is not counted at one moment
	Most float64  `json:"limit"`
	Unit string   `json:"unit,omitempty"` // empty for a number of things
}

// The units of quotas.
const (
	UnitBytes       = "bytes"
	UnitBytesAnHour = "bytes/h"
	UnitASecond     = "1/s"
)
