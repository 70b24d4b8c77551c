package main

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	tokenSecondsDefault = int64(3600)
	tokenAgeMax         = 24 * time.Hour
	tokenRetryPeriod    = 10 * time.Second
)

// tokens holds the service-account tokens of one pod. The volume loop of that
// pod is its only user.
type tokens struct {
	client kubernetes.Interface
	held   map[tokenKey]heldToken
}

type tokenKey struct {
	audience string
	seconds  int64
}

type heldToken struct {
	text      string
	refreshAt time.Time
}

func newTokens(client kubernetes.Interface) *tokens {
	return &tokens{client: client, held: map[tokenKey]heldToken{}}
}

// token returns a token bound to the pod: the held one, or a new one once the
// held one has used up its time. If that fails, an old one serves until it is
// refreshed (it is still valid then).
func (t *tokens) token(ctx context.Context, pod *corev1.Pod, want *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{want.Audience, tokenSecondsDefault}
	if want.ExpirationSeconds != nil {
		key.seconds = *want.ExpirationSeconds
	}
	held, ok := t.held[key]
	if ok && time.Now().Before(held.refreshAt) {
		return held.text, nil
	}
	fresh, err := t.request(ctx, pod, key)
	if err == nil {
		t.held[key] = fresh
		return fresh.text, nil
	}
	if ok {
		t.held[key] = heldToken{held.text, time.Now().Add(tokenRetryPeriod)}
		return held.text, nil
	}
	return "", fmt.Errorf("token of service account %s/%s: %w", pod.Namespace, pod.Spec.ServiceAccountName, err)
}

func (t *tokens) request(ctx context.Context, pod *corev1.Pod, key tokenKey) (heldToken, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	asked := time.Now()
	answer, err := t.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return heldToken{}, err
	}
	return heldToken{answer.Status.Token, tokenRefreshAt(asked, answer.Status.ExpirationTimestamp.Time)}, nil
}

// tokenRefreshAt is the kubelet's rule: after 80 % of the token's life, at most
// a day.
func tokenRefreshAt(asked, expires time.Time) time.Time {
	return asked.Add(min(expires.Sub(asked)*8/10, tokenAgeMax))
}

// nextRefresh is when the first token wants to be asked for again.
func (t *tokens) nextRefresh() (at time.Time, any bool) {
	for _, held := range t.held {
		if !any || held.refreshAt.Before(at) {
			at, any = held.refreshAt, true
		}
	}
	return at, any
}
