package picture

import "encoding/binary"

// maxTags is the largest number of entries of one directory that are read.
const maxTags = 512

// orientation returns how an image must be turned according to EXIF (TIFF 6.0, section 8,
// Orientation), from 1 to 8; it returns 1 if EXIF has no valid value.
func orientation(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder
	switch string(b[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(b[4:]))
	if at < 8 || at+2 > int64(len(b)) {
		return 1
	}
	dir := b[at:]
	n := min(int(order.Uint16(dir)), maxTags)
	for i := range n {
		if len(dir) < 2+12*(i+1) {
			return 1
		}
		e := dir[2+12*i:]
		const tag, short = 0x0112, 3
		if order.Uint16(e) != tag {
			continue
		}
		if v := int(order.Uint16(e[8:])); order.Uint16(e[2:]) == short && v >= 1 && v <= 8 {
			return v
		}
		return 1
	}
	return 1
}
