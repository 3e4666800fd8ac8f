package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// The part of the NBD protocol that qemu uses if a server offers nothing else
// (github.com/NetworkBlockDevice/nbd, doc/proto.md; the names are from there).
const (
	nbdMagic       = 0x4e42444d41474943 // "NBDMAGIC"
	nbdOption      = 0x49484156454f5054 // "IHAVEOPT"
	nbdOptionReply = 0x3e889045565a9
	nbdRequest     = 0x25609513
	nbdReply       = 0x67446698

	nbdNewStyle = 1 // NBD_FLAG_FIXED_NEWSTYLE
	nbdNoZeroes = 2 // NBD_FLAG_NO_ZEROES

	optExportName = 1
	optAbort      = 2
	optGo         = 7

	repAck         = 1
	repInfo        = 3
	repUnsupported = 1<<31 + 1

	// NBD_FLAG_HAS_FLAGS and NBD_FLAG_SEND_FLUSH. Without NBD_FLAG_SEND_FUA a
	// write that must be kept is followed by a flush.
	nbdFlags = 1 | 4

	cmdRead       = 0
	cmdWrite      = 1
	cmdDisconnect = 2
	cmdFlush      = 3

	maxOption  = 4 << 10
	maxRequest = 32 << 20 // qemu's own limit
)

// serve lets one client use the disk, until the client disconnects or the disk loses its
// power.
func (d *disk) serve(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	return d.speak(c)
}

// speak serves one connection. It is not an error if the client disconnects: a killed
// client may disconnect in the middle of a message.
func (d *disk) speak(c io.ReadWriter) error {
	n := &nbd{r: bufio.NewReader(c), w: bufio.NewWriter(c)}
	err := n.negotiate(uint64(len(d.seen)))
	for err == nil {
		err = n.serve(d)
	}
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, errOff, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// nbd is one end of a connection.
type nbd struct {
	r *bufio.Reader
	w *bufio.Writer
}

// get reads numbers in network byte order.
func (n *nbd) get(into ...any) error {
	for _, v := range into {
		if err := binary.Read(n.r, binary.BigEndian, v); err != nil {
			return err
		}
	}
	return nil
}

// put writes numbers and bytes, and sends them.
func (n *nbd) put(all ...any) error {
	for _, v := range all {
		if err := binary.Write(n.w, binary.BigEndian, v); err != nil {
			return err
		}
	}
	return n.w.Flush()
}

// negotiate returns when the client has chosen the disk. There is only one disk, so its
// name does not matter.
func (n *nbd) negotiate(size uint64) error {
	var flags uint32
	if err := n.put(uint64(nbdMagic), uint64(nbdOption), uint16(nbdNewStyle|nbdNoZeroes)); err != nil {
		return err
	}
	if err := n.get(&flags); err != nil {
		return err
	}
	for {
		var magic uint64
		var option, length uint32
		if err := n.get(&magic, &option, &length); err != nil {
			return err
		}
		if magic != nbdOption || length > maxOption {
			return fmt.Errorf("option %d with the magic %#x and %d bytes", option, magic, length)
		}
		if _, err := n.r.Discard(int(length)); err != nil {
			return err
		}
		reply := func(kind uint32, data []byte) error {
			return n.put(uint64(nbdOptionReply), option, kind, uint32(len(data)), data)
		}
		switch option {
		case optExportName:
			err := n.put(size, uint16(nbdFlags))
			if err == nil && flags&nbdNoZeroes == 0 {
				err = n.put(make([]byte, 124))
			}
			return err
		case optGo:
			export := binary.BigEndian.AppendUint64([]byte{0, 0}, size) // NBD_INFO_EXPORT is 0
			export = binary.BigEndian.AppendUint16(export, nbdFlags)
			if err := reply(repInfo, export); err != nil {
				return err
			}
			return reply(repAck, nil)
		case optAbort:
			return errors.Join(reply(repAck, nil), io.EOF)
		default:
			if err := reply(repUnsupported, nil); err != nil {
				return err
			}
		}
	}
}

// serve answers one request. A disk without power does not answer.
func (n *nbd) serve(d *disk) error {
	var magic, length uint32
	var flags, command uint16
	var handle, at uint64
	if err := n.get(&magic, &flags, &command, &handle, &at, &length); err != nil {
		return err
	}
	if magic != nbdRequest || length > maxRequest || int(length) > len(d.seen) {
		return fmt.Errorf("request %d with the magic %#x and %d bytes", command, magic, length)
	}
	var data []byte
	var err error
	switch command {
	case cmdRead:
		data, err = d.read(int(length), int64(at))
	case cmdWrite:
		text := make([]byte, length)
		if _, err := io.ReadFull(n.r, text); err != nil {
			return err
		}
		err = d.write(text, int64(at))
	case cmdFlush:
		err = d.flush()
	case cmdDisconnect:
		return io.EOF
	default:
		err = errRange
	}
	switch {
	case errors.Is(err, errOff):
		return err
	case err != nil:
		return n.put(uint32(nbdReply), uint32(syscall.EINVAL), handle)
	}
	return n.put(uint32(nbdReply), uint32(0), handle, data)
}
