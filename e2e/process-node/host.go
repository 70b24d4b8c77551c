package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
)

// host holds the pods of this node and what they need of the machine.
type host struct {
	nodeName  string
	address   string // the node's address, status.hostIP of its pods
	folder    string
	keepLogs  bool
	apiHost   string
	apiPort   string
	images    imageMap
	log       *slog.Logger
	client    kubernetes.Interface
	objects   objectReader
	listed    corev1listers.PodLister
	spawner   *spawner
	addresses *addressPool
	recorder  record.EventRecorder
	notify    func(*corev1.Pod)

	// alive ends when the node no longer talks to the API server.
	alive context.Context

	mu   sync.Mutex
	pods map[types.UID]*pod
}

// forcedGrace is for pods whose object is gone: nobody waits for them any more.
const forcedGrace = time.Second

// podFolder is where the files of a pod are: logs and pids are found here by
// name, so the layout is an interface.
func (h *host) podFolder(object *corev1.Pod) string {
	return filepath.Join(h.folder, "pods", fmt.Sprintf("%s_%s_%s", object.Namespace, object.Name, object.UID))
}

// prepare claims the folder and removes what an earlier node left in it. The
// processes of that node died with it.
func (h *host) prepare() error {
	if err := os.MkdirAll(filepath.Join(h.folder, "pods"), 0o755); err != nil {
		return fmt.Errorf("--root: %w", err)
	}
	if err := claimFolder(h.folder); err != nil {
		return err
	}
	leftovers, err := filepath.Glob(filepath.Join(h.folder, "pods", "*"))
	if err != nil {
		return err
	}
	for _, folder := range leftovers {
		if err := clearPodFolder(folder, h.keepLogs); err != nil {
			return fmt.Errorf("clearing %s: %w", folder, err)
		}
	}
	return h.spawner.check(h.folder)
}

func (h *host) find(uid types.UID) *pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pods[uid]
}

// named returns the pods of that name: two, while a replaced one still ends.
func (h *host) named(namespace, name string) []*pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*pod
	for _, p := range h.pods {
		if p.namespace == namespace && p.name == name {
			found = append(found, p)
		}
	}
	return found
}

func (h *host) forget(p *pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, p.uid)
}

func (h *host) all() []*pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*pod, 0, len(h.pods))
	for _, p := range h.pods {
		out = append(out, p)
	}
	return out
}

// objectChanged wakes the pods that use a changed Secret or ConfigMap.
func (h *host) objectChanged(namespace string, usedBy func(*corev1.Pod) bool) {
	for _, p := range h.all() {
		if p.namespace == namespace && usedBy(p.latest()) {
			p.changed.wake()
		}
	}
}

// stopAll ends all processes: SIGTERM, then SIGKILL after grace or when hurry
// ends. Pods and their objects stay; the node runs them again when it is back.
func (h *host) stopAll(hurry context.Context, grace time.Duration) {
	pods := h.all()
	for _, p := range pods {
		p.ending.end(grace)
	}
	for _, p := range pods {
		select {
		case <-p.done:
		case <-hurry.Done():
			p.ending.kill()
			<-p.done
		}
	}
}
