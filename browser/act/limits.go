package act

import "time"

// Limits are the bounds of this package, in one place. No page and no caller can
// raise them.
const (
	// Seats that are open at once, of all tenants and of one, and how long the next
	// caller waits for one.
	MaxSeats       = 4
	MaxTenantSeats = 2
	SeatPatience   = 10 * time.Second
	// Life of a seat: the idle times after which its Chrome stands still and is ended, and its age
	// at most.
	FreezeAfter = time.Minute
	ParkAfter   = 10 * time.Minute
	MaxAge      = 8 * time.Hour
	MaxParked   = 256 << 10 // bytes of the addresses that are kept of its tabs

	MaxTabs   = 8
	MaxFrames = 64 // that are looked at, of one tab
	MaxSteps  = 20 // of one call

	// A look: characters by default and at most, references of a document, depth of
	// its tree, time for the pass over it, and how long and how much is kept for the
	// next part.
	DefaultChars = 6000
	MaxChars     = 30000
	MaxRefs      = 10000
	MaxDepth     = 200
	LookTime     = 400 * time.Millisecond
	LookPatience = 4 * time.Second // for a page that does not answer
	LookKept     = 10 * time.Minute
	MaxLook      = 1 << 20 // bytes
	MaxName      = 80      // characters of a control's name, and of its row
	MaxChanges   = 2000    // characters

	// A step: the facts, a control that has to come to rest, what follows an act.
	PrepareTime = time.Second
	InputTime   = 20 * time.Second // all input of a step
	ReadyTime   = 2 * time.Second
	SettleTime  = 2500 * time.Millisecond
	OpenTime    = 20 * time.Second
	MaxWait     = 30 * time.Second // of the verb wait
	MaxText     = 64 << 10         // bytes of the text of a step
	MaxURL      = 16 << 10         // bytes
	TypedKeys   = 64               // characters that are typed key by key

	DialogTime     = 30 * time.Second // for an answer to a dialog
	MaxDialogText  = 500              // bytes
	MaxConsole     = 200              // entries of 500 bytes
	MaxRequests    = 500              // entries of 300 bytes
	MaxDownloads   = 8                // pending
	MaxPicture     = 1_500_000        // pixels
	MaxPDF         = 20 << 20         // bytes
	MaxEval        = 8 << 10          // bytes of a result
	EvalTime       = time.Second
	MaxUploadParts = 10 << 20 // bytes that go to a page without a file

	maxLargeUploads = 4 // times the bytes of one upload, of all that are files, of a seat
)
