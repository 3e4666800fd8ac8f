// Package defect ranks files by what usually goes with defects: complex code that is
// often changed, copied, depended on, poorly named and not tested. It ranks, and gives no
// probability: for that, a model would have to be tested on histories whose defects are
// known, and predict them better than the number of lines does.
//
// The files, each calling those below it:
//
//	rank.go      the rank of the files, and its parts
//	features.go  what is measured of each file
package defect
