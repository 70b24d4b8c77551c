package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// given serves objects from memory, by name.
type given struct {
	secrets    map[string]*corev1.Secret
	configMaps map[string]*corev1.ConfigMap
}

func (g given) secret(_, name string) (*corev1.Secret, error) {
	if secret, ok := g.secrets[name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func (g given) configMap(_, name string) (*corev1.ConfigMap, error) {
	if configMap, ok := g.configMaps[name]; ok {
		return configMap, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func somePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", Namespace: "shop", UID: "u-1",
			Labels:      map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{"note": "a \"b\""},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "web"},
	}
}

var (
	someFacts   = podFacts{podIP: "127.20.0.1", hostIP: "127.0.0.1"}
	someObjects = given{
		secrets:    map[string]*corev1.Secret{"login": {Data: map[string][]byte{"user": []byte("ann"), "pass": []byte("s3")}}},
		configMaps: map[string]*corev1.ConfigMap{"conf": {Data: map[string]string{"mode": "fast", "bad=name": "x"}}},
	}
)

func resolve(t *testing.T, container corev1.Container) (*environment, error) {
	t.Helper()
	return resolveEnvironment(baseEnvironment("web-0", "127.0.0.1", "6443"), somePod(), &container, someFacts, someObjects)
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func secretKey(name, secret, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key, Optional: &optional}}}
}

func TestEveryFieldOfTheDownwardAPIResolves(t *testing.T) {
	env, err := resolve(t, corev1.Container{Env: []corev1.EnvVar{
		field("NAME", "metadata.name"), field("NS", "metadata.namespace"), field("UID", "metadata.uid"),
		field("NODE", "spec.nodeName"), field("SA", "spec.serviceAccountName"),
		field("IP", "status.podIP"), field("HOST", "status.hostIP"),
		field("APP", "metadata.labels['app']"), field("NOTE", "metadata.annotations['note']"), field("LABELS", "metadata.labels"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"NAME": "web-0", "NS": "shop", "UID": "u-1", "NODE": "node-1", "SA": "web", "IP": "127.20.0.1", "HOST": "127.0.0.1",
		"APP": "web", "NOTE": `a "b"`, "LABELS": "app=\"web\"\ntier=\"front\"", "KUBERNETES_SERVICE_PORT": "6443",
	} {
		if got, _ := env.lookup(name); got != want {
			t.Errorf("%s: found %q, expected %q", name, got, want)
		}
	}
}

func TestReferencesExpandToEarlierVariablesOnly(t *testing.T) {
	env, err := resolve(t, corev1.Container{Env: []corev1.EnvVar{
		{Name: "A", Value: "one"},
		{Name: "B", Value: "$(A)-$(LATER)-$$(A)-$x-$(A"},
		{Name: "LATER", Value: "two"},
		{Name: "A", Value: "again $(A)"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := env.lookup("B"); got != "one-$(LATER)-$(A)-$x-$(A" {
		t.Errorf("B is %q", got)
	}
	if got, _ := env.lookup("A"); got != "again one" {
		t.Errorf("A is %q", got)
	}
	if n := len(slices.DeleteFunc(env.list(), func(line string) bool { return !strings.HasPrefix(line, "A=") })); n != 1 {
		t.Errorf("A is listed %d times", n)
	}
}

func TestEnvFromAddsPrefixedKeysAndEnvOverrides(t *testing.T) {
	env, err := resolve(t, corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "DB_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "login"}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}},
		},
		Env: []corev1.EnvVar{{Name: "mode", Value: "$(DB_user)"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := env.lookup("DB_pass"); got != "s3" {
		t.Errorf("DB_pass is %q", got)
	}
	if got, _ := env.lookup("mode"); got != "ann" {
		t.Errorf("mode is %q", got)
	}
	if _, ok := env.lookup("bad=name"); ok {
		t.Error("a key that cannot be a variable's name was taken")
	}
}

func TestAMissingReferenceIsAnErrorUnlessOptional(t *testing.T) {
	for _, c := range []struct {
		variable corev1.EnvVar
		message  string // empty: no error
	}{
		{secretKey("X", "login", "user", false), ""},
		{secretKey("X", "absent", "user", true), ""},
		{secretKey("X", "login", "absent", true), ""},
		{secretKey("X", "absent", "user", false), `env X: secrets "absent" not found`},
		{secretKey("X", "login", "absent", false), "env X: couldn't find key absent in Secret shop/login"},
		{field("X", "spec.containers"), "allowed: metadata."},
		{corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{}}}, "resourceFieldRef is not supported"},
	} {
		_, err := resolve(t, corev1.Container{Env: []corev1.EnvVar{c.variable}})
		switch {
		case c.message == "" && err != nil:
			t.Errorf("unexpected: %v", err)
		case c.message != "" && (err == nil || !strings.Contains(err.Error(), c.message)):
			t.Errorf("found %v, expected %q", err, c.message)
		}
	}
}
