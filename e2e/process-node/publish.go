package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// touch asks for the status to be published; several at once become one.
func (p *pod) touch() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// publish hands every change of the status to virtual-kubelet, whose queue
// writes it and repeats it after failures.
func (p *pod) publish() {
	for {
		select {
		case <-p.gone:
			return
		case <-p.dirty:
		}
		object := p.latest().DeepCopy()
		object.DeletionTimestamp, object.DeletionGracePeriodSeconds = nil, nil
		object.Status = p.status()
		p.host.notify(object)
	}
}

// conclude settles the status of a pod without processes.
func (p *pod) conclude() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
		// What waited for a restart has ended with its last run.
		if c.state.Waiting != nil && c.last.Terminated != nil {
			c.state = c.last
		}
		c.ready, c.started = false, false
	}
}

// patchStatus writes the status as it is now. It is a patch of what a node owns,
// bound to the pod's uid: labels, finalizers and others' conditions stay as they
// are, and a new pod of the same name is never touched.
func (p *pod) patchStatus(ctx context.Context) error {
	p.patching.Lock()
	defer p.patching.Unlock()
	patch, err := statusPatch(p.uid, p.status())
	if err != nil {
		return err
	}
	_, err = p.host.client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || refusesUID(err) {
		return nil // gone, or another pod of that name by now
	}
	return err
}

// refusesUID tells whether a patch was refused because the object has another
// uid, which the API server calls an attempt to change it.
func refusesUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	})
}

func statusPatch(uid types.UID, status corev1.PodStatus) ([]byte, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	// What is empty now may not have been so before.
	for _, name := range []string{"reason", "message"} {
		if _, ok := fields[name]; !ok {
			fields[name] = nil
		}
	}
	// These lists merge by address, which would keep those of an earlier run.
	for _, name := range []string{"podIPs", "hostIPs"} {
		if list, ok := fields[name].([]any); ok {
			fields[name] = append([]any{map[string]any{"$patch": "replace"}}, list...)
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": fields})
}

// deleteObject removes a pod's object, once and for all: it goes on until the
// API server has done it. before, if any, must succeed first.
func (h *host) deleteObject(namespace, name string, uid types.UID, before func(context.Context) error) {
	for h.alive.Err() == nil {
		err := h.tryDeleteObject(namespace, name, uid, before)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		h.log.Warn("deleting a pod's object failed; trying again", "pod", namespace+"/"+name, "error", err)
		select {
		case <-h.alive.Done():
		case <-time.After(time.Second):
		}
	}
}

func (h *host) tryDeleteObject(namespace, name string, uid types.UID, before func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(h.alive, requestTimeout)
	defer cancel()
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(uid))
	return h.client.CoreV1().Pods(namespace).Delete(ctx, name, *options)
}
