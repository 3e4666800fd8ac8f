// Package history measures what the git program knows about files: how often each was
// changed, by whom and how much ([Measure]), and what was changed since a commit
// ([Changed]).
//
// The configuration of a repository can name programs that git starts: hooks, a file system
// monitor, external diffs, text converters, filters, pagers, signature programs,
// transports. A repository is not trusted, so the arguments and the environment of each
// command close each of these ways, and a test puts a program behind each way. The package
// starts git only through the function that its caller gives ([Run]).
//
// The files, each calling those below it:
//
//	measure.go  the changes of each file in a period
//	change.go   which lines were changed since a commit
//	repo.go     finds the repository, and whether its history is whole
//	log.go      reads the output of git log
//	patch.go    reads the output of git diff
//	records.go  reads records that end in NUL
//	git.go      the arguments and the environment of git
package history
