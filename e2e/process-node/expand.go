package main

import "strings"

// expand replaces $(NAME) by the value that lookup knows, as Kubernetes does in
// env values, command and args: $$ stands for one $, and a reference to an
// unknown name stays as it is.
func expand(text string, lookup func(string) (string, bool)) string {
	var out strings.Builder
	for {
		dollar := strings.IndexByte(text, '$')
		if dollar < 0 || dollar == len(text)-1 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:dollar])
		rest := text[dollar+1:]
		switch rest[0] {
		case '$':
			out.WriteByte('$')
			text = rest[1:]
		case '(':
			end := strings.IndexByte(rest, ')')
			if end < 0 {
				out.WriteString("$(")
				text = rest[1:]
				continue
			}
			if value, ok := lookup(rest[1:end]); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$" + rest[:end+1])
			}
			text = rest[end+1:]
		default:
			out.WriteString("$" + rest[:1])
			text = rest[1:]
		}
	}
}

// expandAll expands every text with the values of env.
func expandAll(texts []string, env *environment) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = expand(text, env.lookup)
	}
	return out
}
