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
	maxShot       = 4 << 20   // bytes of a picture from a browser
	maxShotPixels = 2_000_000 // pixels of a picture to decode and to send
)

// showShot sends a picture of what a browser shows now. Only one picture is made at a time,
// because calls of the agent wait meanwhile.
func showShot(r *request) (any, error) {
	if !r.console.turns.picture.TryLock() {
		return nil, fault(http.StatusTooManyRequests, "another picture is being made; try again when it is finished")
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
	_, _ = r.w.Write(text) // if the client has gone, the error does not matter
	return nil, errAnswered
}

// holdSeat stops the actions of a browser's agent.
func holdSeat(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	return struct{}{}, r.views.Tools.HoldSeat(r.context(), r.named("id"), r.who.Name)
}

// releaseSeat lets the agent continue.
func releaseSeat(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	return struct{}{}, r.views.Tools.ReleaseSeat(r.named("id"), r.who.Name)
}

// redrawn returns a new PNG with the pixels of a picture, and with no other data from it.
// It decodes PNG and JPEG, but no picture whose header says that it is too large.
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
		return nil, errors.New("its header has another size")
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, picture); err != nil {
		return nil, fmt.Errorf("write it: %w", err)
	}
	return out.Bytes(), nil
}
