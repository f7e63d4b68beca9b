//go:build !unix

package blockdev

func errnoName(error) string { return "" }

func notADir(error) bool { return false }
