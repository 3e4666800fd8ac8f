// Package audit keeps the log of the calls of agents, the decisions about them
// and their outcomes, in a form that shows later changes.
//
// The log is a directory of files with one JSON object a line:
//
//	audit.jsonl                 the file that is written now
//	audit-000000000001.jsonl    full files, named by their first record
//	audit.checkpoint            the newest signed checkpoint
//	audit.key, audit.pub        what signs checkpoints, and what checks them
//	audit.lock                  held while a process writes
//	torn-000000000042.bin       what a crash left of a record that it cut
//
// Each line begins {"seq":N,"prev":"HASH","kind":"...": seq counts from 1
// through all files, prev is the SHA-256 of the line before without its LF; in
// the first line it is 64 zeros. So nobody can change, remove, add or move a line
// without writing all later lines anew. Checkpoints prevent that: after at most
// 1,000 records, or a minute, a checkpoint signs the number and the hash of the
// last line (Ed25519, in the format of golang.org/x/mod/sumdb/note). It is a
// record, and also a file of its own. Anybody who can read the key can sign
// anything: copy checkpoints to another machine and compare the log with them
// later.
//
// A full file is renamed, and the next one begins with a record that names it.
// Before old files are deleted, a record states what they held and which hash
// they ended with, so that the rest can be verified without them.
//
// Several processes may write to one log. A process holds a lock of the file
// system (flock(2)) while it writes a group of records, and continues the log from
// what it finds. Records are on the disk after an interval at the latest, or when
// Commit returns.
//
// The files, each calling only those below it:
//
//	cast.go        recordings of what commands show
//	reel.go        recordings of what browsers show
//	readcast.go    reads recordings
//	recording.go   the files of recordings, and how many are kept
//	replay.go      past calls, by which policies are compared
//	witness.go     checkpoints of other logs
//	back.go        the log, read from its end as far as a caller wants
//	read.go        the log, record by record
//	verify.go      whether the log is unchanged
//	sight.go       whether the log is as other machines saw it
//	log.go         takes records, and writes them in groups
//	health.go      how many records were written, and how many were lost
//	write.go       writes a group of records
//	rotate.go      begins a new file, and removes old ones
//	resume.go      finds where the log ends, and opens it there
//	append.go      puts a record at the end of the chain, and signs it
//	checkpoint.go  checkpoints and their keys
//	hold.go        keeps other processes from writing while a function runs
//	file.go        the files of a log and their lines
//	own.go         the log's records about itself
//	clean.go       removes from other texts what a record does not show
//	record.go      the records about everything else
//	execs.go       the programs that a command started
//	encode.go      writes a record as JSON
//	redact.go      what no record shows
//	emails.go, tokens.go
//	               finds addresses of mail, keys and tokens
//	mark.go        the marks that stand for what was taken out
package audit
