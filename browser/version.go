package browser

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/sandbox"
)

// oldestChrome is the oldest major version that is used. newestTried is the newest version
// with which the tests ran.
const (
	oldestChrome = 125
	newestTried  = 156
)

// errVersion means that there is a Chrome, but its version does not work here.
var errVersion = errors.New("this version of Chromium does not work here")

// errNotNested means that Chrome itself reports that it cannot have a sandbox of its own.
// Only this error allows a Chrome without one: a Chrome that was slow once, or ran out of
// memory, may have a sandbox the next time.
var errNotNested = errors.New("namespaces cannot be nested in a box on this host")

// tried returns what an operator should know about a version, such as
// "HeadlessChrome/156.0.8078.79", or an error if the version does not work here.
func tried(product string) (note string, err error) {
	_, version, _ := strings.Cut(product, "/")
	text, _, _ := strings.Cut(version, ".")
	switch major, err := strconv.Atoi(text); {
	case err != nil || major <= 0:
		return "", fmt.Errorf("%q does not name a version of Chromium; %d is the oldest that works: %w", clip(product, 80), oldestChrome, errVersion)
	case major < oldestChrome:
		return "", fmt.Errorf("%s is too old; %d is the oldest that works: %w", clip(product, 80), oldestChrome, errVersion)
	case major > newestTried:
		return fmt.Sprintf("newer than %d, the newest version that was tested", newestTried), nil
	}
	return "", nil
}

// startFault returns the error of a Chrome that did not start, with what it wrote.
func startFault(err error, said string) error {
	for _, words := range []string{"No usable sandbox", "Failed to move to new namespace"} {
		if strings.Contains(said, words) {
			return fmt.Errorf("%w; Chromium reported: %s: %w", errNotNested, said, err)
		}
	}
	return fmt.Errorf("%w; Chromium reported: %s", err, said)
}

// lastWords returns the end of what a dying Chrome wrote, in one line.
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
	return clip(strings.TrimSpace(string(cut.Text)), 2*most)
}
