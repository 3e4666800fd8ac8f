// Package durable holds the rooms to their promise that what they acknowledged
// is on the disk. Its tests kill writers of each room in the middle of their work, and
// look for all that the writers said is kept. `make test-vm-power` runs the same writers
// in a virtual machine, all of them over one state directory as a server has
// it, and takes the power away.
//
// A writer is this package's test binary, started again with dirEnv; live says
// what it writes on its standard output, which is all that its killer knows.
package durable
