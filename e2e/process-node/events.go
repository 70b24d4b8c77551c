package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// podEvents passes on Events about pods, except virtual-kubelet's own about
// every create, update and delete call: they say nothing to a user and would
// cost a write for each.
type podEvents struct{ record.EventRecorder }

func (e podEvents) Event(object runtime.Object, kind, reason, message string) {
	if !strings.HasPrefix(reason, "Provider") {
		e.EventRecorder.Event(object, kind, reason, message)
	}
}

func (e podEvents) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	if !strings.HasPrefix(reason, "Provider") {
		e.EventRecorder.Eventf(object, kind, reason, format, args...)
	}
}

// event announces something about a pod. A node that is being stopped is
// silent: the recorder has ended, and what its pods suffer now is no news.
func (h *host) event(object *corev1.Pod, kind, reason, message string) {
	if h.alive.Err() == nil {
		h.recorder.Event(object, kind, reason, message)
	}
}
