// Package launch decides how the command of somebody else's MCP server is started in a box:
// which programs, in which phases, with which environment. It starts nothing itself and reads
// no file, so a plan is a pure function of an entry.
//
// Most entries are not programs but launchers, for example npx: one command fetches a package
// and runs it, with access to the network and to all tokens. New splits such a start into two
// phases:
//
//   - Install fetches the packages. It reaches the registries of the plan and nothing else,
//     keeps what it writes to the caches, and gets no variable of the entry except settings of
//     package managers without a login, because scripts of packages run in this phase.
//   - Run starts the server. It has the entry's environment and the hosts that the policy
//     gives it, and does not reach a registry.
//
// The command docker run is only read and never executed: its image becomes the root of a
// box. An option of docker or of a launcher that cannot be kept is a Refusal that names it
// and says what to write instead; no option is ignored without a report.
//
// The environment of both phases is made here: home, caches and temporary files have their
// own directories in the box, and variables show package managers whether the phase has a
// network. A variable that belljar sets replaces one of the entry.
//
// Pin returns the parts of a start that are compared with what a person agreed to: argv,
// packages, files.
//
// The files, each calling only those below it:
//
//	plan.go                          from an entry to its plan; how a launcher is recognised
//	pin.go                           what is pinned
//	npm.go, python.go, docker.go     the launchers
//	phases.go                        the packages of a launcher, and its two phases
//	lint.go                          what a person should look at
//	flags.go                         the options of launchers, and the packages that they name
//	hosts.go                         registries
//	environment.go                   what belljar sets
//	phase.go                         what a plan is made of
package launch
