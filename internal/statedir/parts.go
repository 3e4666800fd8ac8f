package statedir

import "path/filepath"

// Part is one entry of a state directory.
type Part struct {
	Name  string // name of the file or directory
	What  string // what the part contains
	Bound string // bound on its size
	Saved bool   // whether a backup contains the part
}

// Names of the parts that this package treats specially.
const (
	auditPart    = "audit"
	databasePart = "db"
	serversPart  = "servers"
)

// Parts returns all entries that belljar makes in a state directory.
func Parts() []Part {
	return []Part{
		{auditPart, "the audit log, its keys, and recordings of terminals", "rotate x keep of the policy (30 x 64 MiB), and 1 GiB of recordings", true},
		{databasePart, "tokens, logins, sessions, approvals, tasks, plans, jobs: the database", "256 MiB, and a log of 8 MiB", true},
		{"jobs", "output of background tasks", "64 MiB", true},
		{"plans", "plans as files", "200 for each tenant and workspace", true},
		{"protected", "which repositories each workspace had", "a file for each workspace", true},
		{"token.key", "the key of the tokens", "32 bytes", true},
		{"upstream.key", "the key of the logins at other people's servers", "32 bytes", true},
		{"search", "statistics of search engines", "a file for each engine", false},
		{"images", "unpacked images", "none: belljar image prune", false},
		{"workspaces", "what boxes changed in overlay workspaces", "none: belljar workspace prune", false},
		{serversPart, "sockets of running servers", "a socket for each", false},
	}
}

// saved reports whether an entry of a state directory belongs in a backup.
func saved(name string) bool {
	for _, p := range Parts() {
		if p.Name == name {
			return p.Saved
		}
	}
	return false
}

// other is the name for all entries that are not a part.
const other = "other files"

// temporary returns the files that killed processes have left: keys, and copies of the
// database, under temporary names.
func temporary(dir string) ([]string, error) {
	var all []string
	for _, pattern := range []string{"token.key.*", "upstream.key.*", filepath.Join(databasePart, copyPrefix+"*")} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
