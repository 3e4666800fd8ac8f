// Package quality compares what the toolkit measures with what other programs measure
// of the same files: whole standard libraries, and programs that only this comparison
// needs. Its tests have the build tag quality, and run by make toolkit-quality.
package quality
