package main

import (
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/csidoctor/csidoctor/internal/carrier"
	"github.com/csidoctor/csidoctor/internal/explain"
)

func TestRole(t *testing.T) {
	written, err := os.ReadFile("../../../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made := role(explain.Inputs)
	if diff := cmp.Diff(made, string(written)); diff != "" {
		t.Errorf("deploy/rbac.yaml is not of this table of inputs (run: go run ./internal/tools/rbac > deploy/rbac.yaml)\n%s", diff)
	}
	var r rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(made), &r); err != nil {
		t.Fatal(err)
	}
	for _, rule := range r.Rules {
		for _, verb := range rule.Verbs {
			if verb != "get" && verb != "list" {
				t.Errorf("%v: %s is more than reading", rule.Resources, verb)
			}
		}
		if rule.Resources[0] == "secrets" || len(rule.Resources) != 1 {
			t.Errorf("%v", rule.Resources)
		}
	}
}

func TestProberRole(t *testing.T) {
	written, err := os.ReadFile("../../../deploy/prober.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made := proberRole(carrier.Rights)
	if diff := cmp.Diff(made, string(written)); diff != "" {
		t.Errorf("deploy/prober.yaml is not of the carrier's table (run: go run ./internal/tools/rbac -prober > deploy/prober.yaml)\n%s", diff)
	}
	var r rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(made), &r); err != nil {
		t.Fatal(err)
	}
	for _, rule := range r.Rules {
		for _, verb := range rule.Verbs {
			if changes := verb != "get" && verb != "list"; changes && rule.Resources[0] != "jobs" && rule.Resources[0] != "pods" && rule.Resources[0] != "pods/exec" {
				t.Errorf("%v: %s is more than a probe needs", rule.Resources, verb)
			}
		}
	}
}
