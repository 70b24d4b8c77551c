package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// podFacts is what the node, not the API, decides about a pod.
type podFacts struct {
	podIP  string
	hostIP string
}

// fieldValue resolves a fieldRef path of the downward API.
func fieldValue(pod *corev1.Pod, facts podFacts, path string) (string, error) {
	if base, key, ok := subscript(path); ok {
		switch base {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return facts.podIP, nil
	case "status.hostIP", "status.hostIPs":
		return facts.hostIP, nil
	}
	return "", fmt.Errorf("fieldRef: found %q, allowed: metadata.{name,namespace,uid,labels,annotations,labels['KEY'],annotations['KEY']}, spec.{nodeName,serviceAccountName}, status.{podIP,podIPs,hostIP,hostIPs}", path)
}

// subscript splits metadata.labels['app'] into metadata.labels and app.
func subscript(path string) (base, key string, ok bool) {
	base, rest, found := strings.Cut(path, "['")
	if !found || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return base, strings.TrimSuffix(rest, "']"), true
}

// formatMap writes labels as the kubelet does: one key="value" a line, sorted.
func formatMap(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = key + "=" + strconv.Quote(m[key])
	}
	return strings.Join(lines, "\n")
}
