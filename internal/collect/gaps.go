package collect

import (
	"fmt"

	"github.com/csidoctor/csidoctor/internal/explain"
	"github.com/csidoctor/csidoctor/internal/snapshot"
)

const (
	nodeReports = "nodereports.csidoctor.dev"
	logExcerpts = "logexcerpts.csidoctor.dev"
)

// remedy is what makes a query readable that was not, on a cluster and in the files that came from one.
func remedy(reason string, q snapshot.Query) string {
	switch reason {
	case "forbidden":
		check := append([]string{"kubectl", "auth", "can-i", verb(q), q.Resource}, scope(q)...)
		return fmt.Sprintf("ask for the right to %s it (deploy/rbac.yaml has a role with all that is needed), then check with `%s`", verb(q), explain.Shell(check...))
	case "timeout":
		return "try again, with more time: --request-timeout=60s"
	case "expired", "failed":
		return "try again; the same by hand: `" + kubectlGet(q) + "`"
	case "not-served":
		return "check that the server has it: `kubectl api-resources`"
	default:
		return ""
	}
}

// unasked is the gap of what no API serves: node reports and log lines come from elsewhere. nil for all else.
func unasked(q snapshot.Query) *snapshot.Gap {
	switch q.Resource {
	case nodeReports:
		g := &snapshot.Gap{Input: "node-report", Reason: "not-probed", Detail: "sockets, mounts and devices were not looked at", Remedy: "look on the nodes themselves: `findmnt; lsblk -f; dmesg`"}
		if q.Name != "" {
			g.Detail += " on node " + q.Name
			g.Remedy = fmt.Sprintf("look on node %s itself: `findmnt; lsblk -f; dmesg`", explain.Shell(q.Name))
		}
		return g
	case logExcerpts:
		g := &snapshot.Gap{Reason: "not-collected", Detail: "logs were not read", Remedy: "read them with --logs"}
		if q.Name != "" {
			words := append([]string{"kubectl", "logs", q.Name}, scope(q)...)
			g.Remedy = "read them with `" + explain.Shell(append(words, "--all-containers", "--tail=2000")...) + "`"
		}
		return g
	}
	return nil
}

func verb(q snapshot.Query) string {
	if q.Name != "" {
		return "get"
	}
	return "list"
}

// scope is the namespace part of a kubectl command.
func scope(q snapshot.Query) []string {
	if q.Namespace != "" {
		return []string{"-n", q.Namespace}
	}
	// Of a kind that is not known, -A lists all whether it has namespaces or not.
	if k := snapshot.ResourceOf(q.Resource); q.Name == "" && (k == nil || k.Namespaced) {
		return []string{"-A"}
	}
	return nil
}

// kubectlGet is the command that asks the same.
func kubectlGet(q snapshot.Query, more ...string) string {
	words := []string{"kubectl", "get", q.Resource}
	if q.Name != "" {
		words = append(words, q.Name)
	}
	words = append(words, scope(q)...)
	if q := q.Sent(); q.Fields != "" {
		words = append(words, "--field-selector", q.Fields)
	}
	if q.Labels != "" {
		words = append(words, "-l", q.Labels)
	}
	return explain.Shell(append(words, more...)...)
}
