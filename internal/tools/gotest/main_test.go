package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	events := `
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestOften","Output":"    p_test.go:9: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestOften"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    p_test.go:4: two is not three\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestPanics","Output":"panic: out of luck\n"}
{"Action":"output","Package":"p","Output":"FAIL p 0.1s\n"}
{"Action":"fail","Package":"p"}
{"ImportPath":"q","Action":"build-output","Output":"q.go:1: no such name\n"}
{"Action":"output","Package":"r","Output":"? r [no test files]\n"}
{"Action":"skip","Package":"r"}
`
	var out strings.Builder
	got, err := report(strings.NewReader(events), &out)
	if err != nil {
		t.Fatal(err)
	}
	// A package without tests is no skipped test.
	if want := (result{passed: 1, failed: 1, skipped: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, want := range []string{"needs root", "two is not three", "out of luck", "FAIL p", "no such name"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed", want)
		}
	}
	if strings.Contains(out.String(), "quiet") {
		t.Error("the output of a test that passed is printed")
	}
}
