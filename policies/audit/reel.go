package audit

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// maxFramePicture bounds the picture of one step, in bytes.
const maxFramePicture = 1 << 20

// Frame is one step of a browser, and what it showed then.
type Frame struct {
	At   float64 `json:"at"`             // seconds since the call began; set by Add
	Act  string  `json:"act"`            // act that the policy decided about
	Did  string  `json:"did,omitempty"`  // what became of the act
	URL  string  `json:"url,omitempty"`  // URL of the tab at that time
	JPEG []byte  `json:"jpeg,omitempty"` // picture of the tab's window
	Why  string  `json:"why,omitempty"`  // why there is no picture
}

// reelHead is the first line of a reel; each line after it is a Frame.
type reelHead struct {
	Version int    `json:"version"`
	Call    string `json:"call"`
	Began   int64  `json:"began"` // seconds since 1970
}

// Reel records the steps of a call of a browser in a file next to the log, with a line of
// JSON for each step. Secrets are taken out of the texts. The pictures stay as they are:
// the caller covers secrets in them. The methods are safe for concurrent use; Close ends
// the recording.
type Reel struct {
	r     *redactor
	began time.Time

	mu sync.Mutex
	recording
}

// Reel begins the recording of a call. The caller closes it.
func (l *Log) Reel(callID string) (*Reel, error) {
	to, err := l.recording(callID, reelEnd)
	if err != nil {
		return nil, err
	}
	r := &Reel{r: &l.red, began: time.Now(), recording: to}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(reelHead{1, callID, r.began.Unix()})
	return r, nil
}

// Add records a step. A step beyond the bound is left out, and Recorded says so.
func (r *Reel) Add(f Frame) {
	f.At = time.Since(r.began).Seconds()
	for _, text := range []*string{&f.Act, &f.Did, &f.URL, &f.Why} {
		*text = clip(r.r.text(*text), maxText)
	}
	if len(f.JPEG) > maxFramePicture {
		f.JPEG, f.Why = nil, fmt.Sprintf("the picture has more than %d MiB", maxFramePicture>>20)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(f)
}

// line writes a line of the file. The caller holds r.mu.
func (r *Reel) line(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		r.cut = err.Error() // this does not happen: our own types can be marshalled
		return
	}
	r.put(append(text, '\n'))
}

// Close ends the recording. It may be called twice.
func (r *Reel) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end()
	return nil
}

// Recorded returns the result of the recording, or false if the recording has not ended.
func (r *Reel) Recorded() (Recorded, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result()
}
