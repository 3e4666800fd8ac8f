package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// maxScans is the largest number of passes over the pixels of a progressive JPEG.
const maxScans = 100

var errCut = errors.New("its header is truncated")

// examineJPEG reads the segments (ITU-T T.81, annex B): the size, whether the image is
// progressive, the number of scans, and the EXIF orientation.
func examineJPEG(src []byte, info *Info) error {
	info.lossy = true
	scans := 0
	for at := 2; ; {
		// Fill bytes may precede a marker; in a scan every other byte is data.
		i := bytes.IndexByte(src[min(at, len(src)):], 0xff)
		if i < 0 || at+i+1 >= len(src) {
			break
		}
		at += i + 1
		marker := src[at]
		if marker == 0xff {
			continue
		}
		at++
		if marker == 0 || marker == 0x01 || marker >= 0xd0 && marker <= 0xd8 {
			continue // a stuffed byte, or a marker without a length
		}
		if marker == 0xd9 { // the end of the image
			break
		}
		if at+2 > len(src) {
			break
		}
		n := int(binary.BigEndian.Uint16(src[at:]))
		if n < 2 || at+n > len(src) {
			break // the decoder reports what is wrong
		}
		data := src[at+2 : at+n]
		switch {
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			if err := frame(data, marker, info); err != nil {
				return err
			}
		case marker == 0xda:
			if scans++; scans > maxScans {
				return errors.New("it has more than 100 scans")
			}
		case marker == 0xe1 && info.Turned == 1 && bytes.HasPrefix(data, []byte("Exif\x00\x00")):
			info.Turned = orientation(data[6:])
		}
		at += n
	}
	if info.Width == 0 {
		return errCut
	}
	return nil
}

// frame reads the size of the image, and the memory that it needs: a progressive image
// keeps the coefficients of all its blocks in addition to its pixels.
func frame(data []byte, marker byte, info *Info) error {
	if len(data) < 6 {
		return errCut
	}
	h, w, parts := int(binary.BigEndian.Uint16(data[1:])), int(binary.BigEndian.Uint16(data[3:])), int(data[5])
	if parts < 1 || parts > 4 || len(data) < 6+3*parts {
		return errCut
	}
	across, down, samples := 1, 1, 0
	for i := range parts {
		s := data[7+3*i]
		x, y := int(s>>4), int(s&15)
		if x < 1 || x > 4 || y < 1 || y > 4 {
			return errors.New("its sampling factors are not valid")
		}
		across, down, samples = max(across, x), max(down, y), samples+x*y
	}
	if info.Width != 0 && (info.Width != w || info.Height != h) {
		return errors.New("it has two sizes")
	}
	info.Width, info.Height = w, h
	// The size is counted in whole units of the interleaved blocks.
	unitW, unitH := int64(8*across), int64(8*down)
	units := (int64(w) + unitW - 1) / unitW * ((int64(h) + unitH - 1) / unitH)
	each := int64(1)
	if marker == 0xc2 {
		each = 5
	}
	info.memory = max(info.memory, units*64*int64(samples)*each)
	if parts == 4 { // such an image is also converted to RGB
		info.memory += 4 * int64(w) * int64(h)
	}
	return nil
}
