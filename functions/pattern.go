package functions

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	anyToken  = "*" // stands for exactly one token
	anyTokens = ">" // stands for one or more tokens, to the end
)

// typeProblems checks the patterns of one function, each by itself and then
// against the others.
func typeProblems(patterns []string) []problem {
	if len(patterns) == 0 {
		return []problem{problemf("types", "there is none; name at least one event type, or > for all")}
	}
	var ps []problem
	for i, pattern := range patterns {
		field := fmt.Sprintf("types[%d]", i)
		if text := patternProblem(pattern); text != "" {
			ps = append(ps, problemf(field, "%q %s", pattern, text))
			continue
		}
		// JetStream refuses a consumer with one filter inside another, and its
		// error names neither.
		for j, other := range patterns {
			if j != i && patternProblem(other) == "" && covers(other, pattern) && (other != pattern || j < i) {
				ps = append(ps, problemf(field, "%q is already covered by %q; leave one out", pattern, other))
				break
			}
		}
	}
	return ps
}

// patternProblem says what is wrong with one pattern, and returns "" for a
// sound one: tokens that are not empty, separated by dots, with * only as a
// whole token and > only as the whole last one.
func patternProblem(pattern string) string {
	if pattern == "" {
		return "is empty; name an event type, or > for all"
	}
	if !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, blank) {
		return "has white space or control characters, or is not UTF-8"
	}
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return "has an empty token; write tokens with single dots between them, such as com.insurer.claim.*"
		case token == anyToken:
		case token == anyTokens && i == len(tokens)-1:
		case token == anyTokens:
			return "has > before its end; write > last, or * for a single token"
		case strings.ContainsAny(token, anyToken+anyTokens):
			return fmt.Sprintf("has a wildcard inside the token %q; a wildcard stands for a whole token", token)
		}
	}
	return ""
}

// covers says whether everything that the sound pattern narrow matches is
// matched by the sound pattern wide as well.
func covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, token := range w {
		switch {
		case i >= len(n):
			return false
		case token == anyTokens:
			return true
		case n[i] == anyTokens:
			return false
		case token != anyToken && token != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}
