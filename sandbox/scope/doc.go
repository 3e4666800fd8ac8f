// Package scope gets a cgroup for belljar from the systemd of an ordinary user.
//
// A user may not make cgroups where a login puts its processes. The user's own
// service manager may, and gives a part of its tree away when it is asked for a
// scope with Delegate=yes, which is what systemd-run --user --scope -p Delegate=yes
// does. [Enter] asks for one around this process, in these steps:
//
//	enter.go   looks at the cgroup of this process: some must not be left
//	bus.go     connects to the manager, over the user's bus or, where no bus
//	           is installed, over the manager's private socket
//	bus.go     StartTransientUnit, and waits for the end of its job
//	enter.go   looks again: the process must be in the scope
//
// Everything together has [patience]: a manager that does not answer costs that
// much once, before the first box. Only package cgroup calls Enter, where its own
// directory lacks a controller; package sandbox explains the errors to the operator.
package scope
