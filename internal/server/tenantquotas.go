package server

import (
	"maps"
	"os"
	"slices"

	"belljar.dev/internal/control"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// quotas reports how much of their quotas the tenants of a server use.
type quotas struct {
	places  *places
	sandbox *sandbox.Supervisor
}

// tenants returns the tenants that the policy names, sorted.
func (q *quotas) tenants() []control.Tenant {
	l := q.places.layout.Load()
	all := []control.Tenant{}
	for _, name := range l.policy().Tenants() {
		t, _ := l.policy().Tenant(name)
		all = append(all, control.Tenant{Server: os.Getpid(), Name: name, Places: placesOf(l, t), Quotas: q.of(t)})
	}
	return all
}

// placesOf returns the places that a tenant may enter, in the order of their names.
func placesOf(l *layout, t policies.Tenant) (all []control.TenantPlace) {
	if !l.http {
		return nil
	}
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(t.Places))...) {
		if workspace, ok := l.at(t.Name, name); ok {
			all = append(all, control.TenantPlace{Path: pathOf(name), Workspace: workspace})
		}
	}
	return all
}

// of returns the quotas of a tenant, with their use.
func (q *quotas) of(t policies.Tenant) []control.Quota {
	clients, boxes := q.places.shared.Used(t.Name), q.sandbox.Used(t.Name)
	count := func(name, unit string, used, most float64) control.Quota {
		return control.Quota{Name: name, Unit: unit, Used: &used, Most: most}
	}
	totals := t.Totals
	return []control.Quota{
		{Name: "calls", Unit: control.UnitASecond, Most: t.Rate},
		{Name: "burst", Most: float64(t.Burst)},
		count("in_flight", "", float64(clients.Running), float64(t.InFlight)),
		count("sessions", "", float64(clients.Sessions), float64(t.Sessions)),
		count("streams", "", float64(clients.Streams), float64(t.Streams)),
		count("boxes", "", float64(boxes.Boxes), float64(totals.Boxes)),
		count("memory", control.UnitBytes, float64(boxes.Memory), float64(totals.Memory)),
		count("pids", "", float64(boxes.Pids), float64(totals.Pids)),
		{Name: "cpu", Most: totals.CPU},
		count("disk", control.UnitBytes, float64(boxes.Disk), float64(totals.Disk)),
		count("egress", control.UnitBytesAnHour, float64(boxes.Egress), float64(totals.Egress)),
	}
}
