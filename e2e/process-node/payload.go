package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// payload is the wanted content of a volume: relative path to file.
type payload map[string]payloadFile

type payloadFile struct {
	data string
	mode fs.FileMode
}

func (p payload) equal(other payload) bool { return maps.Equal(p, other) }

// add puts the keys of an object into the payload: all under their own names,
// or only those that items maps to paths.
func (p payload) add(data map[string]string, items []corev1.KeyToPath, defaultMode fs.FileMode, optional *bool, object string) error {
	if len(items) == 0 {
		for key, value := range data {
			p[key] = payloadFile{value, defaultMode}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("%s has no key %q, which items asks for", object, item.Key)
		}
		if err := p.put(item.Path, value, modeOr(item.Mode, defaultMode)); err != nil {
			return fmt.Errorf("%s: %w", object, err)
		}
	}
	return nil
}

// put adds one file; its path must stay inside the volume.
func (p payload) put(name, data string, mode fs.FileMode) error {
	clean := path.Clean(name)
	if path.IsAbs(name) || clean == "." || clean == ".." || strings.HasPrefix(clean, "..") {
		return fmt.Errorf("path: found %q, expected a relative path that does not start with '..'", name)
	}
	p[clean] = payloadFile{data, mode}
	return nil
}

func modeOr(mode *int32, otherwise fs.FileMode) fs.FileMode {
	if mode == nil {
		return otherwise
	}
	return fs.FileMode(*mode) & fs.ModePerm
}

// secretData joins data and its text form; Secret values are bytes.
func secretData(secret *corev1.Secret) map[string]string {
	out := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out
}

func configMapData(configMap *corev1.ConfigMap) map[string]string {
	out := maps.Clone(configMap.Data)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range configMap.BinaryData {
		out[key] = string(value)
	}
	return out
}
