// Package plan keeps which sessions plan, and the plans that came of it: in the
// state directory, for each tenant and workspace. That a session which plans can
// change nothing is not held here but by the layer of policy that its tool puts
// below the session.
package plan
