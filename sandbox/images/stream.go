package images

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxRatio is how much larger than its compressed form an archive may be,
	// once it is larger than ratioFrom. A program shrinks to a third, text to a
	// tenth.
	maxRatio  = 500
	ratioFrom = 64 << 20

	// maxWindow bounds what a zstd decoder keeps in memory; it is what zstd(1) accepts
	// without --long.
	maxWindow = 128 << 20
)

// meter counts and hashes what is read through it.
type meter struct {
	ctx  context.Context //nolint:containedctx // a reader is all that decoders know, and it lives as long as one import
	r    io.Reader
	n    int64
	hash hash.Hash
}

func newMeter(ctx context.Context, r io.Reader) *meter {
	return &meter{ctx: ctx, r: r, hash: sha256.New()}
}

func (m *meter) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.r.Read(p)
	m.n += int64(n)
	m.hash.Write(p[:n])
	return n, err
}

func (m *meter) digest() string { return "sha256:" + hex.EncodeToString(m.hash.Sum(nil)) }

// stream is an archive without its compression. Its methods are not for
// concurrent use; it must be closed.
type stream struct {
	in, out *meter
	most    int64 // bytes that may come out at most
	closer  func()
}

// openStream returns r without its compression, which it recognizes by the first bytes;
// most is the largest number of bytes that may come out of it.
func openStream(ctx context.Context, r io.Reader, most int64) (*stream, error) {
	s := &stream{in: newMeter(ctx, r), most: most, closer: func() {}}
	b := bufio.NewReaderSize(s.in, 64<<10)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read: %w", err)
	}
	plain := io.Reader(b)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		plain = z
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		s.closer = z.Close
		plain = z
	case bytes.HasPrefix(head, []byte("BZh")):
		plain = bzip2.NewReader(b)
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return nil, errors.New("it is compressed by xz, which is not read here; pipe it: xz -dc FILE | belljar image import NAME -")
	}
	s.out = newMeter(ctx, plain)
	return s, nil
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	switch {
	case s.out.n > s.most:
		return 0, fmt.Errorf("it is larger than %d bytes without its compression", s.most)
	case s.out.n > ratioFrom && s.out.n/maxRatio > s.in.n:
		return 0, fmt.Errorf("it unpacks to over %d times its compressed size, which no ordinary image does", maxRatio)
	}
	return n, err
}

// drain reads to the end, so that all bytes are hashed.
func (s *stream) drain() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return fmt.Errorf("read to the end: %w", err)
	}
	// Bytes after the compressed data are part of the blob as well.
	if _, err := io.Copy(io.Discard, s.in); err != nil {
		return fmt.Errorf("read to the end: %w", err)
	}
	return nil
}

func (s *stream) close() { s.closer() }
