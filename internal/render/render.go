// Package render prints an answer: as text for a person, as JSON or YAML for a script.
//
// It knows layout, width, colour and what a terminal must never be sent. It refuses to judge: nothing is decided, ordered or
// left out here for what it says, only for how much of it is asked for. It takes the terminal's size and the environment
// once (OptionsFor), never asks the terminal for anything else, and never reads the clock.
//
// Prose wraps, names and commands do not: a command (Step.Command, or a remedy that begins with "kubectl ") has a line of its
// own, a word longer than the line overflows, and what stands between backticks is one word.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"

	"sigs.k8s.io/yaml"

	"github.com/csidoctor/csidoctor/internal/explain"
)

// JSON prints v indented. Lists of an answer are never null, and hidden characters are spelled \uXXXX: the values stay the
// same, the terminal sees none of them.
func JSON(w io.Writer, v any) error {
	text, err := encode(v, `\u%04x`)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// YAML prints v with the same fields. A plain YAML scalar has no escapes, so a hidden character becomes visible text.
func YAML(w io.Writer, v any) error {
	text, err := encode(v, `\\u%04x`)
	if err != nil {
		return err
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		return fmt.Errorf("print the answer as YAML: %w", err)
	}
	_, err = w.Write(text)
	return err
}

func encode(v any, hidden string) ([]byte, error) {
	switch answer := v.(type) {
	case explain.Diagnosis:
		v = filled(answer)
	case explain.List:
		answer.Items = each(answer.Items, filled)
		answer.Gaps = orEmpty(answer.Gaps)
		v = answer
	}
	var plain, safe bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false) // values quote < > & of messages, and nothing here is a web page
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("print the answer as JSON: %w", err)
	}
	for _, r := range plain.String() {
		switch {
		case r == '\n' || visible(r):
			safe.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&safe, hidden+hidden, high, low)
		default: // only strings hold such runes: in JSON they may be escaped wherever they stand
			fmt.Fprintf(&safe, hidden, r)
		}
	}
	return safe.Bytes(), nil
}

// filled is d with [] where a list is nil; d itself is not touched.
func filled(d explain.Diagnosis) explain.Diagnosis {
	d.Chains = each(d.Chains, func(c explain.Chain) explain.Chain {
		c.Hops = orEmpty(c.Hops)
		return c
	})
	d.Findings = each(d.Findings, func(f explain.Finding) explain.Finding {
		f.Evidence, f.Fix = orEmpty(f.Evidence), orEmpty(f.Fix)
		return f
	})
	d.Gaps = orEmpty(d.Gaps)
	return d
}

func each[T any](list []T, change func(T) T) []T {
	changed := make([]T, len(list))
	for i, v := range list {
		changed[i] = change(v)
	}
	return changed
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
