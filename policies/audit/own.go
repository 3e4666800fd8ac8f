package audit

// The records that the log writes about itself.

// fileLine is the first record of a file that follows another file.
type fileLine struct {
	After   string `json:"after"`   // name of the file before
	Records uint64 `json:"records"` // number of records in all files before
	Head    string `json:"head"`    // hash of the last line of After, which is also prev
}

// removedLine states which old files are deleted.
type removedLine struct {
	Files    []string `json:"files"`
	LastSeq  uint64   `json:"last_seq"`  // all records up to this one are gone
	LastHash string   `json:"last_hash"` // hash of the record LastSeq
	Bytes    int64    `json:"bytes"`
}

// tornLine states that a crash had cut a record.
type tornLine struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	File   string `json:"file"` // name of the file that contains the bytes of the cut record
}

// droppedLine states that records could not be written.
type droppedLine struct {
	Count  uint64 `json:"count"`
	Since  string `json:"since"`
	Reason string `json:"reason"`
}

// checkpointLine signs all records before it.
type checkpointLine struct {
	Note string `json:"note"`
}

// missingLine states that records are missing.
type missingLine struct {
	Checkpoint string `json:"checkpoint"` // text of the checkpoint file that was found
	Reason     string `json:"reason"`
}
