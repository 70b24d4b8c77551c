package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// imageMap tells which local binary an image name stands for.
type imageMap map[string]string

// resolve finds the binary of an image: by the exact name, without its digest,
// or without its tag, in this order.
func (m imageMap) resolve(image string) (string, error) {
	bare, _, _ := strings.Cut(image, "@")
	untagged := bare
	if colon := strings.LastIndex(bare, ":"); colon > strings.LastIndex(bare, "/") {
		untagged = bare[:colon]
	}
	for _, name := range []string{image, bare, untagged} {
		path, ok := m[name]
		if !ok {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("image %q stands for %s, which cannot be read: %w", image, path, err)
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return "", fmt.Errorf("image %q stands for %s, which is not an executable file", image, path)
		}
		return path, nil
	}
	return "", fmt.Errorf("no such image here: %q; known images: %s", image, strings.Join(m.names(), ", "))
}

func (m imageMap) names() []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// String and Set make an imageMap a repeatable flag.
func (m imageMap) String() string { return strings.Join(m.names(), ", ") }

func (m imageMap) Set(text string) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" {
		return fmt.Errorf("found %q, expected NAME=/path/to/binary", text)
	}
	if known, taken := m[name]; taken {
		return fmt.Errorf("%q is given twice (first %s)", name, known)
	}
	// A binary that is not built yet is no error here: the pod that wants it says so.
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	m[name] = absolute
	return nil
}
