// Package durable tests the promise of the rooms that data which they acknowledged are
// on the disk. Its tests kill writers of each room in the middle of their work, and check
// that everything that the writers reported is still there. `make test-vm-power` runs the
// same writers in a virtual machine, all of them in one state directory as in a server,
// and cuts the power.
//
// A writer is this package's test binary, started again with dirEnv. live describes what a
// writer reports on its standard output, which is all that the killer of a writer knows.
package durable
