package browser

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/sandbox"
)

// oldestChrome is the major version that can do all that is asked of it
// (Element.getHTML and the headless shell as it is now); newestTried the newest
// that the tests ran with.
const (
	oldestChrome = 125
	newestTried  = 156
)

// errVersion is the cause where there is a Chrome, and not one that works here.
var errVersion = errors.New("that version does not work here")

// errNotNested is the cause where Chrome says itself that it cannot have a sandbox
// of its own. Nothing else is a reason to do without one: a Chrome that was slow
// once, or ran out of memory, may have one the next time.
var errNotNested = errors.New("no namespaces nest in a box on this host")

// tried says of a version, such as "HeadlessChrome/156.0.8078.79", what an operator
// should know of it, or why it does not work here.
func tried(product string) (note string, err error) {
	_, version, _ := strings.Cut(product, "/")
	text, _, _ := strings.Cut(version, ".")
	switch major, err := strconv.Atoi(text); {
	case err != nil || major <= 0:
		return "", fmt.Errorf("%q names no version of Chromium, of which %d is the oldest that works here: %w", clip(product, 80), oldestChrome, errVersion)
	case major < oldestChrome:
		return "", fmt.Errorf("%s is too old, %d is the oldest that works here: %w", clip(product, 80), oldestChrome, errVersion)
	case major > newestTried:
		return fmt.Sprintf("newer than %d, the last that was tried", newestTried), nil
	}
	return "", nil
}

// startFault is the error of a Chrome that did not start, with what it wrote.
func startFault(err error, said string) error {
	for _, words := range []string{"No usable sandbox", "Failed to move to new namespace"} {
		if strings.Contains(said, words) {
			return fmt.Errorf("%w; it said: %s: %w", errNotNested, said, err)
		}
	}
	return fmt.Errorf("%w; it said: %s", err, said)
}

// lastWords returns the end of what a dying Chrome wrote.
func lastWords(job *sandbox.Job) string {
	const most = 1000
	dying := time.NewTimer(deathPatience)
	defer dying.Stop()
	select {
	case <-job.Done():
	case <-dying.C:
	}
	cut, err := job.Output().Cut(most)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(cut.Text)), "?")
}
