package act

import "time"

// Limits are the bounds of this package, in one place. No page and no caller can
// raise them.
const (
	// Number of seats that are open at the same time, of all tenants and of one tenant, and
	// how long the next caller waits for a seat.
	MaxSeats       = 4
	MaxTenantSeats = 2
	SeatPatience   = 10 * time.Second
	// Life of a seat: the idle times after which its Chrome is frozen and is ended, and its
	// largest age.
	FreezeAfter = time.Minute
	ParkAfter   = 10 * time.Minute
	MaxAge      = 8 * time.Hour
	MaxParked   = 256 << 10 // bytes of the addresses of its tabs that are kept

	MaxTabs   = 8
	MaxFrames = 64 // frames of a tab that are looked at
	MaxSteps  = 20 // steps of one call

	// A look: the default and the largest number of characters, the references of a
	// document, the depth of its tree, the time for a pass over it, and how long and how
	// much is kept for the next part.
	DefaultChars = 6000
	MaxChars     = 30000
	MaxRefs      = 10000
	MaxDepth     = 200
	LookTime     = 400 * time.Millisecond
	LookPatience = 4 * time.Second // longest wait for a page that does not answer
	LookKept     = 10 * time.Minute
	MaxLook      = 1 << 20 // bytes of the lines of a look
	MaxName      = 80      // characters of a control's name, and of its row
	MaxChanges   = 2000    // characters of a look at changes

	// A step: the times for reading the facts, for all input, for a control to come to
	// rest, and for what follows an act.
	PrepareTime = time.Second
	InputTime   = 20 * time.Second // all input of a step
	ReadyTime   = 2 * time.Second
	SettleTime  = 2500 * time.Millisecond
	OpenTime    = 20 * time.Second
	MaxWait     = 30 * time.Second // longest wait of the verb wait
	MaxText     = 64 << 10         // bytes of the text of a step
	MaxURL      = 16 << 10         // bytes of a URL
	TypedKeys   = 64               // characters that are typed key by key

	DialogTime     = 30 * time.Second // longest wait for the answer to a dialog
	MaxDialogText  = 500              // characters of the text of a dialog
	MaxConsole     = 200              // lines of the console, of 500 characters each
	MaxRequests    = 500              // requests, with URLs of 300 characters each
	MaxDownloads   = 8                // downloads that are in progress or wait to be saved
	MaxPicture     = 1_500_000        // pixels of a picture
	MaxPDF         = 20 << 20         // bytes of a PDF file
	MaxEval        = 8 << 10          // bytes of the value of an expression
	EvalTime       = time.Second
	MaxUploadParts = 10 << 20 // bytes of an upload that goes to a page without a file

	maxLargeUploads = 4 // bytes of all large uploads of a seat, in units of Options.Uploads
)
