package server

import (
	"bytes"
	"fmt"
	"image/jpeg"

	"belljar.dev/browser/act"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies/audit"
)

// reelQuality is the JPEG quality of the pictures in the recording of a browser.
// shownQuality is that of the pictures for people who watch.
const (
	reelQuality  = 50
	shownQuality = 60
)

// reel records the steps of a browser call.
type reel struct{ *audit.Reel }

// reel returns the recorder of a browser call if the audit level of the call is full, and
// nil otherwise.
func (l *ledger) reel(call mcp.Call) tools.Reel {
	if l == nil || !l.records(call.Audit) {
		return nil
	}
	r, err := l.log.Reel(call.ID)
	if err != nil {
		l.out.Warn("a call of a browser is not recorded", "call", call.ID, "err", err)
		return nil
	}
	l.recordings.mu.Lock()
	defer l.recordings.mu.Unlock()
	if l.recordings.reels == nil {
		l.recordings.reels = make(map[string]*audit.Reel)
	}
	l.recordings.reels[call.ID] = r
	return reel{r}
}

// Step records a step.
func (r reel) Step(what, did string, shows *act.Look, why error) {
	f := audit.Frame{Act: what, Did: did}
	if why == nil {
		f.URL = shows.URL
		f.JPEG, _, _, why = redrawn(shows.Picture, reelQuality)
	}
	if why != nil {
		f.Why = why.Error()
	}
	r.Add(f)
}

// redrawn decodes and encodes a picture of a browser again, so that the result contains
// only pixels, and nothing else that the browser has sent. Package act bounds the number
// of pixels.
func redrawn(picture []byte, quality int) (data []byte, width, height int, err error) {
	img, err := jpeg.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read the picture: %w", err)
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, &jpeg.Options{Quality: quality}); err != nil {
		return nil, 0, 0, fmt.Errorf("write the picture: %w", err)
	}
	return out.Bytes(), img.Bounds().Dx(), img.Bounds().Dy(), nil
}
