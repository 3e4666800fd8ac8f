// Package audit keeps the log of what agents asked for, what was decided and
// what became of it, in a form that shows when it was changed afterwards.
//
// The log is a directory of files with one JSON object a line:
//
//	audit.jsonl                 what is written now
//	audit-000000000001.jsonl    full files, named by their first record
//	audit.checkpoint            the newest signed checkpoint
//	audit.key, audit.pub        what signs checkpoints, and what checks them
//	audit.lock                  held while a process writes
//	torn-000000000042.bin       what a crash left of a record that it cut
//
// Each line begins {"seq":N,"prev":"HASH","kind":"...": seq counts from 1
// through all files, prev is the SHA-256 of the line before without its LF, of
// which the first line has 64 zeros. So no line can be changed, removed, added
// or moved without all lines behind it being written anew, and that the
// checkpoints stop: at most every 1,000 records and every minute one of them
// signs the number and the hash of the last line (Ed25519, in the format of
// golang.org/x/mod/sumdb/note), as a record and in a file of its own. Whoever
// can read the key can sign anything: copy checkpoints to another machine to
// hold the log against them later.
//
// A full file is renamed, and the next one begins with a record that names it.
// Before old files are deleted, a record states what they held and which hash
// they ended with, so that the rest can be verified without them.
//
// Several processes may write to one log: a lock of the file system (flock(2))
// is held for each group of records, and whoever takes it goes on from what it
// finds. Records are written in groups as they come, and are on the disk after
// an interval at the latest, or when Commit returns.
package audit
