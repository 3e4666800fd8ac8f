// Package quality compares what the toolkit measures with what other programs measure for
// the same files: whole standard libraries, and programs that only this comparison needs.
// Its tests have the build tag quality; make toolkit-quality runs them.
package quality
