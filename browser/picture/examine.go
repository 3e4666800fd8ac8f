package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image/gif"
	"image/png"

	"golang.org/x/image/bmp"
)

// unsupported contains the formats that are recognized but not read, by their first bytes.
var unsupported = []struct {
	format, magic string
	at            int
}{
	{"tiff", "II*\x00", 0},
	{"tiff", "MM\x00*", 0},
	{"heic", "ftypheic", 4},
	{"heic", "ftypheix", 4},
	{"heic", "ftyphevc", 4},
	{"heic", "ftypmif1", 4},
	{"heic", "ftypmsf1", 4},
	{"heic", "ftypheim", 4},
	{"avif", "ftypavif", 4},
	{"avif", "ftypavis", 4},
	{"jpeg xl", "\xff\x0a", 0},
	{"jpeg xl", "\x00\x00\x00\x0cJXL \r\n\x87\n", 0},
	{"jpeg 2000", "\x00\x00\x00\x0cjP  \r\n\x87\n", 0},
	{"psd", "8BPS", 0},
	{"ico", "\x00\x00\x01\x00", 0},
}

// Sniff returns the format that the first bytes of a file show; it is empty if the format
// is not known. The format may be one that is not read.
func Sniff(src []byte) string {
	for _, known := range []struct{ format, magic string }{
		{"jpeg", "\xff\xd8\xff"}, {"png", "\x89PNG\r\n\x1a\n"}, {"gif", "GIF87a"}, {"gif", "GIF89a"}, {"bmp", "BM"},
	} {
		if bytes.HasPrefix(src, []byte(known.magic)) {
			return known.format
		}
	}
	if len(src) >= 12 && string(src[:4]) == "RIFF" && string(src[8:12]) == "WEBP" {
		return "webp"
	}
	for _, u := range unsupported {
		if len(src) >= u.at && bytes.HasPrefix(src[u.at:], []byte(u.magic)) {
			return u.format
		}
	}
	if isSVG(src) {
		return "svg"
	}
	return ""
}

// isSVG reports whether a text begins with an svg element, after what is allowed before it.
func isSVG(src []byte) bool {
	head := bytes.TrimPrefix(src[:min(len(src), 8<<10)], []byte("\xef\xbb\xbf"))
	for {
		head = bytes.TrimLeft(head, " \t\r\n")
		var end string
		switch {
		case bytes.HasPrefix(head, []byte("<svg")):
			return len(head) > 4 && bytes.IndexByte([]byte(" \t\r\n/>"), head[4]) >= 0
		case bytes.HasPrefix(head, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(head, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(head, []byte("<!DOCTYPE svg")):
			end = ">"
		default:
			return false
		}
		i := bytes.Index(head, []byte(end))
		if i < 0 {
			return false
		}
		head = head[i+len(end):]
	}
}

// Examine reads the header of an image. It fails with an *Error for data that is not
// an image, for a format that is not read, and for an image that would take too much
// memory; it decodes nothing.
func Examine(src []byte) (Info, error) {
	if len(src) > MaxSource {
		return Info{}, &Error{Message: fmt.Sprintf("the file has more than %d bytes", MaxSource), Instead: "make a smaller copy of it in the box"}
	}
	info := Info{Format: Sniff(src), Turned: 1, Bytes: len(src)}
	var err error
	switch info.Format {
	case "jpeg":
		err = examineJPEG(src, &info)
	case "png":
		err = examinePNG(src, &info)
	case "gif":
		err = examineGIF(src, &info)
	case "webp":
		err = examineWebP(src, &info)
	case "bmp":
		err = examineBMP(src, &info)
	case "svg":
		return info, nil
	case "":
		return info, &Error{Message: "its first bytes are not those of a known image format", Instead: "look at it with Bash (file, head); ReadImage shows jpeg, png, gif, webp, bmp and svg"}
	default:
		return info, &Error{Format: info.Format, Message: info.Format + " images are not supported", Instead: "convert it in the box to png or jpeg"}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return info, e
	}
	switch {
	case err != nil:
		return info, &Error{Format: info.Format, Message: fmt.Sprintf("the %s cannot be read: %v", info.Format, err), Instead: "make it again; the file is damaged or truncated"}
	case info.Width < 1 || info.Height < 1:
		return info, &Error{Format: info.Format, Message: fmt.Sprintf("the %s has no pixels", info.Format), Instead: "make it again"}
	case info.memory > MaxMemory:
		return info, &Error{
			Format: info.Format, Message: fmt.Sprintf("the %s has %d x %d pixels, and decoding it would take %d MiB of memory, more than %d", info.Format, info.Width, info.Height, info.memory>>20, MaxMemory>>20),
			Instead: "make a smaller copy of it in the box",
		}
	}
	if info.Turned >= 5 { // the image is stored on its side
		info.Width, info.Height = info.Height, info.Width
	}
	return info, nil
}

func examinePNG(src []byte, info *Info) error {
	c, err := png.DecodeConfig(bytes.NewReader(src))
	if err != nil {
		return err
	}
	info.Width, info.Height = c.Width, c.Height
	each := int64(4)
	if len(src) > 24 && src[24] == 16 { // bit depth, in the chunk IHDR
		each = 8
	}
	info.memory = each * int64(c.Width) * int64(c.Height)
	if b := pngChunk(src, "eXIf"); b != nil {
		info.Turned = orientation(b)
	}
	info.Animated = pngChunk(src, "acTL") != nil
	return nil
}

// pngChunk returns a chunk that comes before the image's data, or nil.
func pngChunk(src []byte, name string) []byte {
	for at := 8; at+12 <= len(src); {
		n := int(binary.BigEndian.Uint32(src[at:]))
		if n < 0 || n > len(src)-at-12 {
			return nil
		}
		switch string(src[at+4 : at+8]) {
		case name:
			return src[at+8 : at+8+n]
		case "IDAT":
			return nil
		}
		at += 12 + n
	}
	return nil
}

func examineGIF(src []byte, info *Info) error {
	c, err := gif.DecodeConfig(bytes.NewReader(src))
	if err != nil {
		return err
	}
	info.Width, info.Height = c.Width, c.Height
	info.memory = 2 * int64(c.Width) * int64(c.Height) // no frame can be larger: image/gif checks that
	info.Animated = bytes.Contains(src[:min(len(src), 4096)], []byte("NETSCAPE2.0"))
	return nil
}

func examineBMP(src []byte, info *Info) error {
	c, err := bmp.DecodeConfig(bytes.NewReader(src))
	if err != nil {
		return err
	}
	info.Width, info.Height, info.memory = c.Width, c.Height, 4*int64(c.Width)*int64(c.Height)
	return nil
}

// examineWebP checks all chunks: the decoder allocates memory for another size than the one
// that VP8X claims.
func examineWebP(src []byte, info *Info) error {
	info.lossy = true
	biggest := int64(0)
	for at := 12; at+8 <= len(src); {
		n := int64(binary.LittleEndian.Uint32(src[at+4:]))
		data := src[at+8:]
		if n < int64(len(data)) {
			data = data[:n]
		}
		w, h := 0, 0
		switch string(src[at : at+4]) {
		case "VP8X":
			if len(data) < 10 {
				return errCut
			}
			w = 1 + int(data[4]) + int(data[5])<<8 + int(data[6])<<16
			h = 1 + int(data[7]) + int(data[8])<<8 + int(data[9])<<16
			info.Animated = data[0]&2 != 0
		case "VP8 ":
			if len(data) < 10 {
				return errCut
			}
			w, h = int(binary.LittleEndian.Uint16(data[6:]))&0x3fff, int(binary.LittleEndian.Uint16(data[8:]))&0x3fff
		case "VP8L":
			if len(data) < 5 {
				return errCut
			}
			bits := binary.LittleEndian.Uint32(data[1:])
			w, h, info.lossy = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff), false
		case "EXIF":
			info.Turned = orientation(bytes.TrimPrefix(data, []byte("Exif\x00\x00")))
		}
		if info.Width == 0 {
			info.Width, info.Height = w, h
		}
		biggest = max(biggest, int64(w)*int64(h))
		step := 8 + n + n&1
		if step >= int64(len(src)-at) {
			break
		}
		at += int(step)
	}
	info.memory = 8 * biggest // colours, alpha, and the data from which a lossless image is made
	if info.Animated {
		return &Error{Format: "webp", Message: "animated webp images are not supported", Instead: "convert one picture of it to png in the box"}
	}
	return nil
}
