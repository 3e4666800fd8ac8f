package act

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/chromedp/cdproto/dom"
)

// uploadDir is the directory in Chrome's box for files that are too large to pass through a
// script. Chrome is given no other path.
const uploadDir = "/tmp/up"

// upload gives a file to a field: in pieces through our script, or, if it is large, as a file
// in Chrome's box.
func (t hand) upload(ctx context.Context, p *plan, s Step) error {
	if s.File == nil || s.File.Content == nil {
		return &Refusal{Reason: ReasonArgument, Message: "the file of the upload does not exist", Next: "name a file that exists"}
	}
	most := t.e.opts.Uploads
	data, err := io.ReadAll(io.LimitReader(s.File.Content, min(most, MaxUploadParts)+1)) //nolint:forbidigo // it is bounded
	switch size := int64(len(data)); {
	case err != nil:
		return unread(err)
	case size > most:
		return tooLarge(most)
	case size > MaxUploadParts:
		return p.uploadLarge(ctx, s, io.MultiReader(bytes.NewReader(data), s.File.Content))
	}
	return p.uploadParts(ctx, s, data)
}

func tooLarge(most int64) error {
	return &Refusal{Reason: ReasonLimit, Message: "the file has more than " + bytesOf(most), Next: "upload a smaller file"}
}

func unread(err error) error {
	return &Refusal{Reason: ReasonFailed, Message: "the file cannot be read", Next: "name another file", Err: err}
}

// counted counts the bytes that are read, and keeps the error that ends the reading early:
// the program that writes them takes it for the end of the file.
type counted struct {
	io.Reader
	n   int64
	err error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// uploadLarge writes a file into Chrome's box and sets the field to its path. The page may
// read the file later, so it stays until the seat ends.
func (p *plan) uploadLarge(ctx context.Context, s Step, from io.Reader) error {
	t, e, most := p.t, p.e, p.e.opts.Uploads
	e.mu.Lock()
	left := maxLargeUploads*most - e.files.given
	e.mu.Unlock()
	// The size is not known yet, so there must be room for the largest file.
	if left < most {
		return &Refusal{Reason: ReasonLimit, Message: fmt.Sprintf("this session has uploaded %s of the %s that it may upload in large files, and the rest may be too small for this file", bytesOf(maxLargeUploads*most-left), bytesOf(maxLargeUploads*most)), Next: "upload files of at most " + bytesOf(MaxUploadParts) + ", or end the session"}
	}
	c := &counted{Reader: io.LimitReader(from, most+1)}
	name := uploadDir + "/" + nonce() + "/" + fileName(s.File.Name)
	err := e.lease.Put(ctx, name, c)
	e.mu.Lock()
	e.files.given += c.n
	e.mu.Unlock()
	if c.n > most || c.err != nil || err != nil {
		// a file that cannot be removed is gone with the box
		e.ready(func(ctx context.Context) { _ = e.lease.Remove(ctx, name) })
	}
	switch {
	case c.n > most:
		return tooLarge(most)
	case c.err != nil:
		return unread(c.err)
	case err != nil:
		return &Refusal{Reason: ReasonFailed, Message: "the file could not be written into the browser's box", Next: "try again, or upload a smaller file", Err: err}
	}
	f := p.aim.frame
	defer t.release(f.session)
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	field, err := object(within, t, f, fmt.Sprintf(`((e) => belljar.is(e, "input") && e.type === "file" && belljar.dom.connected(e) && !belljar.off(e) ? e : null)(belljar.element(%d))`, p.aim.local))
	switch {
	case errors.Is(err, errLeft):
		return p.takesNone()
	case err != nil:
		return t.fault(err, false)
	}
	_, err = answerOf(within, t, begin(e.g, f.session, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{name}, ObjectID: field}), nil)
	if err != nil {
		return t.fault(t.cause(err), true)
	}
	return nil
}

// takesNone returns the refusal for a field that no longer accepts a file.
func (p *plan) takesNone() error {
	return &Refusal{Reason: ReasonStale, Message: hand{p.t}.nameOf(p.aim) + " no longer accepts a file", Next: "look again"}
}

// uploadParts gives a file to a field in pieces.
func (p *plan) uploadParts(ctx context.Context, s Step, data []byte) error {
	t := p.t
	const piece = 512 << 10
	f := p.aim.frame
	if err := t.run(ctx, f, "belljar.parts = []", nil); err != nil {
		return t.fault(err, false)
	}
	for len(data) > 0 {
		n := min(len(data), piece)
		script := `belljar.parts.push(Uint8Array.from(atob("` + base64.StdEncoding.EncodeToString(data[:n]) + `"), (c) => c.charCodeAt(0)))`
		if err := t.run(ctx, f, script, nil); err != nil {
			return t.fault(err, false)
		}
		data = data[n:]
	}
	var ok bool
	script := fmt.Sprintf(`((e, name) => {
  const parts = belljar.parts;
  delete belljar.parts;
  if (!belljar.is(e, "input") || e.type !== "file" || !belljar.dom.connected(e) || belljar.off(e)) return false;
  const t = new DataTransfer();
  if (e.multiple) for (const f of e.files) t.items.add(f);
  t.items.add(new File(parts, name));
  e.files = t.files;
  e.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
  e.dispatchEvent(new Event("change", { bubbles: true }));
  return true;
})(belljar.element(%d), %s)`, p.aim.local, argument(fileName(s.File.Name)))
	if err := t.run(ctx, f, script, &ok); err != nil {
		return t.fault(err, true)
	}
	if !ok {
		return p.takesNone()
	}
	return nil
}
