// Package escape tries to get out of boxes.
//
// A [Probe] is one act that a box must refuse, or one that it must not break.
// Each is tried in two worlds: outside, as a plain process of the same user,
// and inside a box. An act that fails inside proves nothing by itself: it may
// be misspelt, or the kernel may lack it. So each act must get through outside,
// and then must not get through inside. Some acts cannot be carried out in full
// anywhere, for example because there is nothing to load, or no such swap file.
// They count as having got through if the kernel's own code was reached, which
// an error other than those of a refusal shows.
//
// A [Suite] has both worlds, and two boxes of two tenants: the first box also
// attacks the second. The targets are victims: processes with files, sockets, memory
// and keys that contain a secret, and with queues, a semaphore and a terminal. The
// suite makes them for this purpose, on the host and in the other tenant's box, and
// always removes them.
//
// The acts are done by a prober, which is the running program itself under
// another name: its executable is piped into the box, so a box needs nothing
// installed. [Main] becomes the prober; it belongs at the head of main and
// TestMain. One prober does one act, and has a deadline. It reads its facts from
// standard input, because its environment and arguments are among the places
// where probes look for secrets.
//
//	prober -> suite  begun         without it the act did not run, and was not refused
//	prober -> suite  done          got through or not, and how
//
// The tables, a file for each category, read as the list of what is tried.
package escape
