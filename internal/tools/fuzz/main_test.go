package main

import "testing"

func TestEndedLate(t *testing.T) {
	for output, want := range map[string]bool{
		"fuzz: elapsed: 10s, execs: 331 (20/sec)\n--- FAIL: FuzzShell (10.43s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample.org/a\t10.554s\n":                                              true,
		"--- FAIL: FuzzShell (0.05s)\n    --- FAIL: FuzzShell (0.00s)\n        shell_test.go:31: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzShell/582528ddfad69eb5\nFAIL\n": false,
		"failure while testing seed corpus entry: FuzzShell/seed#0\n--- FAIL: FuzzShell (0.01s)\n    --- FAIL: FuzzShell (0.00s)\n        shell_test.go:31: context deadline exceeded\n    \nFAIL\n":             false,
		"# example.org/a\ncontext deadline exceeded\nFAIL\texample.org/a [build failed]\n":                                                                                                                       false,
	} {
		if got := endedLate.MatchString(output); got != want {
			t.Errorf("%v, want %v:\n%s", got, want, output)
		}
	}
}
