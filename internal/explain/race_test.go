//go:build race

package explain_test

// share is how many of the cases are asked under the race detector, one in so many: answers are made by one goroutine but for scans, and
// the detector makes them eight times as slow. Without it all are.
const share = 4
