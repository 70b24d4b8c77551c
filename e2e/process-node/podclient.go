package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// podWriter stands between virtual-kubelet and the API server for its two
// writes. As they come they would not do: its status update also carries labels
// and finalizers from its cache, and it deletes a pod's object when the grace
// period is over or no container seems to run, not when the processes are gone.
type podWriter struct{ *host }

var _ corev1client.PodsGetter = podWriter{}

func (w podWriter) Pods(namespace string) corev1client.PodInterface {
	return podWrites{w.client.CoreV1().Pods(namespace), w.host, namespace}
}

type podWrites struct {
	corev1client.PodInterface
	host      *host
	namespace string
}

// UpdateStatus patches the status as it is now, which is never older than the
// one given.
func (w podWrites) UpdateStatus(ctx context.Context, object *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	p := w.host.find(object.UID)
	if p == nil {
		return object, nil
	}
	return object, p.patchStatus(ctx)
}

// Delete leaves the deletion to the end of the pod's processes, if it has any.
func (w podWrites) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if options.Preconditions == nil || options.Preconditions.UID == nil {
		return w.PodInterface.Delete(ctx, name, options)
	}
	p := w.host.find(types.UID(*options.Preconditions.UID))
	if p == nil {
		return w.PodInterface.Delete(ctx, name, options)
	}
	grace := forcedGrace
	if listed, err := w.host.listed.Pods(w.namespace).Get(name); err == nil && listed.UID == p.uid && listed.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*listed.DeletionGracePeriodSeconds) * time.Second
	}
	p.remove(grace)
	return nil
}
