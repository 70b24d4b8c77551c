package main

import (
	"context"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// provider is what virtual-kubelet's pod controller drives. It never fails and
// never waits: what goes wrong with a pod is told by the pod's status.
type provider struct{ *host }

var (
	_ node.PodLifecycleHandler = provider{}
	_ node.PodNotifier         = provider{}
)

func (h provider) NotifyPods(_ context.Context, notify func(*corev1.Pod)) { h.notify = notify }

func (h provider) CreatePod(_ context.Context, object *corev1.Pod) error {
	h.run(object)
	return nil
}

// run starts a pod. virtual-kubelet knows pods by name, we by uid: an earlier
// pod of the same name has lost its object and ends beside the new one.
func (h *host) run(object *corev1.Pod) {
	if known := h.find(object.UID); known != nil {
		known.update(object)
		return
	}
	for _, other := range h.named(object.Namespace, object.Name) {
		other.remove(forcedGrace)
	}
	p := newPod(h, object)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pods[object.UID] == nil && h.alive.Err() == nil {
		h.pods[object.UID] = p
		go p.run()
	}
}

func (h provider) UpdatePod(_ context.Context, object *corev1.Pod) error {
	if p := h.find(object.UID); p != nil {
		p.update(object)
	}
	return nil
}

// DeletePod begins the end of a pod; it deletes the object once no process is
// left, and so does not wait here.
func (h provider) DeletePod(_ context.Context, object *corev1.Pod) error {
	grace := forcedGrace
	if object.DeletionTimestamp != nil && object.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*object.DeletionGracePeriodSeconds) * time.Second
	}
	p := h.find(object.UID)
	if p == nil {
		// Never run by this process, so it has no processes.
		go h.deleteObject(object.Namespace, object.Name, object.UID, nil)
		return nil
	}
	p.remove(grace)
	return nil
}

func (h provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	p := h.current(namespace, name)
	if p == nil {
		return nil, errdefs.NotFoundf("no pod %s/%s on this node", namespace, name)
	}
	object := p.latest().DeepCopy()
	object.DeletionTimestamp, object.DeletionGracePeriodSeconds = nil, nil
	return object, nil
}

func (h provider) GetPodStatus(_ context.Context, namespace, name string) (*corev1.PodStatus, error) {
	p := h.current(namespace, name)
	if p == nil {
		return nil, errdefs.NotFoundf("no pod %s/%s on this node", namespace, name)
	}
	status := p.status()
	return &status, nil
}

func (h provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, p := range h.all() {
		object := p.latest().DeepCopy()
		object.Status = p.status()
		out = append(out, object)
	}
	return out, nil
}

// current is the pod of that name whose object exists, or whose object is gone
// without a successor.
func (h *host) current(namespace, name string) *pod {
	for _, p := range h.named(namespace, name) {
		if h.isCurrent(p) {
			return p
		}
	}
	return nil
}

func (h *host) isCurrent(p *pod) bool {
	listed, err := h.listed.Pods(p.namespace).Get(p.name)
	return err != nil || listed.UID == p.uid
}

// replacedPods catches a pod replaced by one of the same name while the watch
// was down: virtual-kubelet sees an update then, and may see nothing to do.
func (h *host) replacedPods() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, now any) {
		before, after := old.(*corev1.Pod), now.(*corev1.Pod)
		if before.UID == after.UID {
			return
		}
		if p := h.find(before.UID); p != nil {
			p.remove(forcedGrace)
		}
		if after.DeletionTimestamp == nil {
			h.run(after.DeepCopy())
		}
	}}
}
