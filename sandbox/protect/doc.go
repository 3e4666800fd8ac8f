// Package protect keeps a part of a workspace as it was.
//
// The files that a box writes into a workspace stay there after the box has ended. Some
// of them run by themselves as soon as a person uses the directory: git's hooks, what an
// editor starts, what another agent reads. A [Protector] keeps these parts of a
// workspace as they were, in two ways:
//
//   - what exists is pinned: [Protector.Pins] lists what an init binds over itself,
//     so that no command can write to it, move it away or put something in its place;
//   - what does not exist, or cannot be mounted, is looked at while commands
//     run and after each, and what appeared there is removed again. There is
//     never a placeholder.
//
// A git repository that a command makes is accepted, as far as it is harmless: the
// other parts of it are removed.
// docs/protected-paths.md says what is protected, why, and where this ends.
//
// The order of calls: [Open] before the first box; [Protector.Pins] for each box that
// is made; [Protector.Begin] and [Watch.End] around each command; [Protector.Close]
// after the last box. A change while no command runs is the person's own work and is
// accepted; a change while a command runs is taken for the command's.
//
// [Changes] judges a set of changes that a person applies later by the same rules.
//
// The sandbox uses this package. The package knows only one thing about boxes: each
// binds its pins. The files, each calling those below it:
//
//	changes.go        whether a set of changes may be applied
//	protector.go      what a Protector knows, Open to Close, and the pins
//	watch.go          Begin and End, and looks while commands run
//	walk.go           repositories at any depth
//	judge.go          when a look adopts and when it takes back
//	record.go         what the next server must know
//	servers.go        which servers run commands, and which died
//	look.go           one look
//	setid.go          files that give rights away
//	repository.go     where repositories are
//	home.go           those that are known, wherever they were moved
//	git.go, index.go, rebase.go
//	                  what git runs of one
//	names.go          paths by their names
//	restore.go        makes one path what it was
//	doubt.go          what may be a command's of another server
//	note.go           what a look notes
//	trust.go          what the times of files say
//	entry.go          files that are kept to be put back
//	gitconfig.go      git's configuration, read as git reads it
//	paths.go          where a path leads
//	beneath_linux.go  system calls beneath a directory
//
// One call goes up, because a protected path can lead to further ones: an index leads to
// the repositories that it names. A link leads to its end, by sealer.onLink.
package protect
