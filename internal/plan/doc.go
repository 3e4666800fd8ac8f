// Package plan keeps in the state directory, for each tenant and workspace, which sessions
// plan, and the plans that they have saved. It does not stop a session that plans from
// changing things: the layer of policy that the plan tool adds to the session does that.
package plan
