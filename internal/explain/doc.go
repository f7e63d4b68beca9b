// Package explain turns a Snapshot into a Diagnosis. It is pure: no cluster, no files, no clock, no logging, no randomness.
// The chain of hops comes first, from structure alone; causes are asked only for the hops that are not in order. An accessor
// that meets something unread notes the query; the caller (collect.Walk) answers it and asks again, so live and offline
// read the same objects, and nothing that no rule looks at is ever fetched.
package explain
