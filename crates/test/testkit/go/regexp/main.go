// What Go's regexp says about many patterns: whether each compiles, with which error, and which texts it matches.
// The output is crates/pure/apimodel/src/schema/go/regexp/golden.jsonl: `go run . > …/golden.jsonl` writes it anew.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"math/rand"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// One pattern a line, from CRDs in the wild and for every corner of the syntax.
//
//go:embed patterns.txt
var patterns string

// Every pattern is tried on each of these.
var inputs = []string{
	"", "a", "b", "c", "A", "Z", "z", "ab", "aab", "abc", "ABC", "a-b", "a.b", "a:b", "a:", ":", "a,b:c", "-", "--", "+", ",", ".", "/",
	"a/b", "[", "]", "[a]", "[:a:]", "^", "^a", "\\", "a\\b", "&", "a&b", "~", "{", "}", "a{", "a{2}", "aa", "aaa", "aaaaaaaaaa", "(", ")", "|", "$",
	"a$", "*", "a*", "?", "#", " ", "a b", "\t", "\n", "a\nb", "\r\n", "\v", "\f", "\x00", "\x07", "0", "1", "12", "007", "3.14", "-1", "_", "a_b", "é", "É", "aé", "ß", "ſ", "K", "k", "S", "s",
	"Σ", "σ", "ς", "Ω", "λ", "日本", "Ж", "٣", "²", "Ⅷ", "€", "😀", "\u00a0", "\u2028", "\u0301", "ǅ", "\U0010ffff", "\ue000",
	"Ready", "MinimumReplicasAvailable", "my-app", "My_App", "example.com", "app.kubernetes.io/name", "v1.2.3", "v1.2.3-rc.1+build", "1h30m", "5m", "10Gi",
	"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "https://example.com/a?b=c", "ssh://git@host:22/x.git", "oci://ghcr.io/a/b",
	"arn:aws:iam::123456789012:role/x", "user@example.com", "10.0.0.1", "10.0.0.0/8", "::1", "2024-01-02T03:04:05Z", "refs/heads/main", "--flag=value", "KEY=value",
}

// What random patterns are made of: the characters on which the dialects disagree come often.
var pieces = strings.Fields(`a b c z A Z 0 9 - - - - : : . , + * ? { } ( ) | ^ $ [ [ [ ] ] ] [^ [: :] [:alpha:] [:^digit:] [:foo:] & && ~ ~~ -- / \ \\ \d \D \w \W \s \S \b \B \- \] \[ \. \: \p{L} \pN \P{Lu} \p{^Greek}
 \x41 \x{e9} \n \t \0 \12 \1 \Q \E \z \A \C {2} {1,3} {0,} {,2} {2,1} {1001} (?: (?i) (?i: (?s) (?m) (?U) (?-i) (?P<n> (?<n> (?= *? +? ?? é ſ K a-z A-Z 0-9 _ a-c !-/ +-- --/ `)

type line struct {
	Pattern string `json:"pattern"`
	Error   string `json:"error,omitempty"`
	// One digit for each input.
	Matches string `json:"matches,omitempty"`
}

func ask(pattern string) line {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return line{Pattern: pattern, Error: err.Error()}
	}
	var matches strings.Builder
	for _, input := range inputs {
		if compiled.MatchString(input) {
			matches.WriteByte('1')
		} else {
			matches.WriteByte('0')
		}
	}
	return line{Pattern: pattern, Matches: matches.String()}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.Encode(map[string]any{"go": runtime.Version(), "inputs": inputs})
	for _, pattern := range strings.Split(strings.TrimSuffix(patterns, "\n"), "\n") {
		encoder.Encode(ask(pattern))
	}
	chance := rand.New(rand.NewSource(1))
	for range 1500 {
		var pattern strings.Builder
		for range 1 + chance.Intn(9) {
			pattern.WriteString(pieces[chance.Intn(len(pieces))])
		}
		encoder.Encode(ask(pattern.String()))
	}
	// Classes alone, because most random patterns above break off at their first error.
	members := strings.Fields(`a b z 0 9 - - - : : ^ [ ] , + . / \] \- \\ \d \W [:alpha:] [:space:] a-z 0-9 +-- --/ & && ~ \p{L} \pN é \x{41} \n _`)
	for range 500 {
		var pattern strings.Builder
		pattern.WriteString([]string{"[", "[^", "^[", "^[^", "(?i)["}[chance.Intn(5)])
		for range 1 + chance.Intn(6) {
			pattern.WriteString(members[chance.Intn(len(members))])
		}
		pattern.WriteString([]string{"]", "]+$", "]{2}", "]*"}[chance.Intn(4)])
		encoder.Encode(ask(pattern.String()))
	}
}
