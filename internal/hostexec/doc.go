// Package hostexec starts programs outside a box. It is the only package that
// does: docs/architecture.md lists the callers, and tests compare that list with
// the source.
//
// The danger of such a program is what it reads. An agent writes files into its
// workspace, and python3, node, git, make and a shell all look for code in their
// working directory, in their environment and on their PATH. A json.py in the
// workspace ran on the host in place of Python's own, because a hook was started
// there. So everything that leads to code is fixed here, and no caller can leave
// it out:
//
//   - the directory is named, and lies in no place that a box can write;
//   - the environment is built from a list of names ([Passed]), and a value that
//     names such a place is refused, as are arguments that do, wherever in the value
//     or argument the path begins ([Boxes.CheckVariable]); an address of a message bus
//     that may start a program is left out;
//   - the program is found once on a PATH without empty and relative entries and
//     without such places, and no link on the way to it lies in one, nor does the
//     interpreter that the first line of a script names;
//   - git finds no repository by itself, because the configuration of a
//     repository starts programs;
//   - of the descriptors of this process it gets those that it is given;
//   - input, output and time are bounded;
//   - all that it starts is killed when it ends, and waited for.
//
// For the last, a program has a cgroup of its own. Without one, root gives it a
// pid namespace. An ordinary user without a cgroup has neither: there the
// program's process group is killed, and a process that left the group by
// setsid(2) stays. Before Linux 6.9, only the program itself is killed there.
package hostexec
