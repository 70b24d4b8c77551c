package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// objectReader reads the objects that pods refer to.
type objectReader interface {
	secret(namespace, name string) (*corev1.Secret, error)
	configMap(namespace, name string) (*corev1.ConfigMap, error)
}

// environment is a resolved environment; a later value replaces an earlier one.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, known := e.values[name]; !known {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

// list returns NAME=value lines in order of first mention.
func (e *environment) list() []string {
	out := make([]string, len(e.names))
	for i, name := range e.names {
		out[i] = name + "=" + e.values[name]
	}
	return out
}

// baseEnvironment is what every container gets before its own variables. It
// inherits nothing from the node's environment.
func baseEnvironment(hostname, apiHost, apiPort string) *environment {
	e := &environment{values: map[string]string{}}
	e.set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	e.set("HOSTNAME", hostname)
	e.set("HOME", "/root")
	e.set("KUBERNETES_SERVICE_HOST", apiHost)
	e.set("KUBERNETES_SERVICE_PORT", apiPort)
	e.set("KUBERNETES_SERVICE_PORT_HTTPS", apiPort)
	return e
}

// resolveEnvironment adds the envFrom and env of a container to base. An error
// names the variable and what it refers to.
func resolveEnvironment(base *environment, pod *corev1.Pod, container *corev1.Container, facts podFacts, objects objectReader) (*environment, error) {
	for i := range container.EnvFrom {
		if err := addEnvFrom(base, pod.Namespace, &container.EnvFrom[i], objects); err != nil {
			return nil, err
		}
	}
	for i := range container.Env {
		variable := &container.Env[i]
		if variable.ValueFrom == nil {
			base.set(variable.Name, expand(variable.Value, base.lookup))
			continue
		}
		value, found, err := valueFrom(pod, variable.ValueFrom, facts, objects)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", variable.Name, err)
		}
		if found {
			base.set(variable.Name, value)
		}
	}
	return base, nil
}

func addEnvFrom(e *environment, namespace string, from *corev1.EnvFromSource, objects objectReader) error {
	values := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		configMap, err := objects.configMap(namespace, from.ConfigMapRef.Name)
		if skip, err := missing(err, from.ConfigMapRef.Optional); skip || err != nil {
			return wrap("envFrom", err)
		}
		values = configMap.Data
	case from.SecretRef != nil:
		secret, err := objects.secret(namespace, from.SecretRef.Name)
		if skip, err := missing(err, from.SecretRef.Optional); skip || err != nil {
			return wrap("envFrom", err)
		}
		for key, value := range secret.Data {
			values[key] = string(value)
		}
	}
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		name := from.Prefix + key
		// As the kubelet: keys that cannot be a variable's name are left out.
		if name == "" || strings.ContainsAny(name, "=\x00") {
			continue
		}
		e.set(name, values[key])
	}
	return nil
}

func valueFrom(pod *corev1.Pod, from *corev1.EnvVarSource, facts podFacts, objects objectReader) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = fieldValue(pod, facts, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := objects.secret(pod.Namespace, ref.Name)
		if skip, err := missing(err, ref.Optional); skip || err != nil {
			return "", false, err
		}
		data, ok := secret.Data[ref.Key]
		return keyed(string(data), ok, ref.Optional, "Secret", pod.Namespace, ref.Name, ref.Key)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		configMap, err := objects.configMap(pod.Namespace, ref.Name)
		if skip, err := missing(err, ref.Optional); skip || err != nil {
			return "", false, err
		}
		data, ok := configMap.Data[ref.Key]
		return keyed(data, ok, ref.Optional, "ConfigMap", pod.Namespace, ref.Name, ref.Key)
	case from.ResourceFieldRef != nil:
		return "", false, fmt.Errorf("resourceFieldRef is not supported by this node (it limits no resources); supported: fieldRef, secretKeyRef, configMapKeyRef")
	}
	return "", false, fmt.Errorf("this kind of valueFrom is not supported by this node; supported: fieldRef, secretKeyRef, configMapKeyRef")
}

func keyed(value string, ok bool, optional *bool, kind, namespace, name, key string) (string, bool, error) {
	if ok {
		return value, true, nil
	}
	if optional != nil && *optional {
		return "", false, nil
	}
	return "", false, fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, namespace, name)
}

// missing tells whether a failed read may be passed over.
func missing(err error, optional *bool) (skip bool, _ error) {
	if err != nil && apierrors.IsNotFound(err) && optional != nil && *optional {
		return true, nil
	}
	return false, err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
