package audit

// The records that the log writes about itself.

// fileLine begins a file after another one.
type fileLine struct {
	After   string `json:"after"`   // name of the file before
	Records uint64 `json:"records"` // of all files before
	Head    string `json:"head"`    // hash of its last line, which is also prev
}

// removedLine states which old files are deleted.
type removedLine struct {
	Files    []string `json:"files"`
	LastSeq  uint64   `json:"last_seq"`  // all records up to this one are gone
	LastHash string   `json:"last_hash"` // of the record LastSeq
	Bytes    int64    `json:"bytes"`
}

// tornLine states what a crash had cut.
type tornLine struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	File   string `json:"file"` // that has what was cut
}

// droppedLine states what could not be written.
type droppedLine struct {
	Count  uint64 `json:"count"`
	Since  string `json:"since"`
	Reason string `json:"reason"`
}

// checkpointLine signs all records before it.
type checkpointLine struct {
	Note string `json:"note"`
}

// missingLine states that records are gone.
type missingLine struct {
	Checkpoint string `json:"checkpoint"` // that was found
	Reason     string `json:"reason"`
}
