// Package defect ranks files by features that usually occur together with defects: code
// that is complex, often changed, copied, depended on, poorly named or not tested. The
// result is a rank and not a probability. For a probability, a model would have to be
// tested on histories whose defects are known, and predict these better than the number
// of lines does.
//
// The files, each calling those below it:
//
//	rank.go      the rank of the files, and its parts
//	features.go  what is measured of each file
package defect
