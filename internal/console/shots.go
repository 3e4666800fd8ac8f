package console

import (
	"bytes"
	"errors"
	"fmt"
	"image/jpeg"
	"image/png"
	"net/http"
	"strconv"
)

// Bounds of a picture of a browser.
const (
	maxShot       = 4 << 20   // bytes, as a browser gave it
	maxShotPixels = 2_000_000 // to decode, and to send
)

// showShot is what a browser shows now. One picture is made at a time, since a call of the agent
// waits for it.
func showShot(r *request) (any, error) {
	if !r.console.turns.picture.TryLock() {
		return nil, fault(http.StatusTooManyRequests, "another picture is being made; try again when it is")
	}
	defer r.console.turns.picture.Unlock()
	shown, err := r.views.Tools.Shot(r.context(), r.named("id"))
	if err != nil {
		return nil, err
	}
	text, err := redrawn(shown)
	if err != nil {
		return nil, &Error{http.StatusBadGateway, fmt.Errorf("the picture of the browser is not shown: %w", err)}
	}
	head := r.w.Header()
	head.Set("Content-Type", "image/png")
	head.Set("Content-Length", strconv.Itoa(len(text)))
	head.Set("Cache-Control", "no-store")
	_, _ = r.w.Write(text) // the client may have gone
	return nil, errAnswered
}

// holdSeat stops what the agent of a browser does.
func holdSeat(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	return struct{}{}, r.views.Tools.HoldSeat(r.context(), r.named("id"), r.who.Name)
}

// releaseSeat lets the agent go on.
func releaseSeat(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	return struct{}{}, r.views.Tools.ReleaseSeat(r.named("id"), r.who.Name)
}

// redrawn is a picture as a PNG of our own making: its pixels, and nothing else that was in it.
// It decodes PNG and JPEG, and nothing whose header says that it is too large.
func redrawn(shown []byte) ([]byte, error) {
	if len(shown) > maxShot {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", len(shown), maxShot)
	}
	header, decode := png.DecodeConfig, png.Decode
	if bytes.HasPrefix(shown, []byte("\xff\xd8")) {
		header, decode = jpeg.DecodeConfig, jpeg.Decode
	}
	size, err := header(bytes.NewReader(shown))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read its header: %w", err)
	case size.Width < 1 || size.Height < 1 || size.Width > maxShotPixels/size.Height:
		return nil, fmt.Errorf("it has %d x %d pixels, and at most %d are decoded", size.Width, size.Height, maxShotPixels)
	}
	picture, err := decode(bytes.NewReader(shown))
	if err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	if at := picture.Bounds(); at.Dx() != size.Width || at.Dy() != size.Height {
		return nil, errors.New("its header says another size")
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, picture); err != nil {
		return nil, fmt.Errorf("write it: %w", err)
	}
	return out.Bytes(), nil
}
