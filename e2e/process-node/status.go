package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status is the pod's status as this node sees it now.
func (p *pod) status() corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := corev1.PodStatus{
		ObservedGeneration:    p.object.Generation,
		StartTime:             &p.startTime,
		HostIP:                p.host.address,
		HostIPs:               []corev1.HostIP{{IP: p.host.address}},
		InitContainerStatuses: containerStatuses(p.inits, &p.object.Spec),
		ContainerStatuses:     containerStatuses(p.mains, &p.object.Spec),
	}
	if p.address != "" {
		status.PodIP = p.address
		status.PodIPs = []corev1.PodIP{{IP: p.address}}
	}
	status.Phase = podPhase(p.restartPolicy, status.InitContainerStatuses, status.ContainerStatuses, p.ended)
	if p.failure != nil {
		status.Reason, status.Message = p.failure.reason, p.failure.message
		if p.ended {
			status.Phase = corev1.PodFailed
		}
	}
	p.conditions = podConditions(p.object, status.Phase, status.InitContainerStatuses, status.ContainerStatuses, p.address != "", p.conditions, metav1.Now())
	status.Conditions = slices.Clone(p.conditions)
	return status
}

func containerStatuses(containers []*container, spec *corev1.PodSpec) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(containers))
	for i, c := range containers {
		started := c.started
		out[i] = corev1.ContainerStatus{
			Name: c.name, State: c.state, LastTerminationState: c.last,
			Ready: c.ready, Started: &started, RestartCount: c.restarts,
			Image: containerNamed(spec, c.name).Image, ImageID: c.image, ContainerID: c.id,
		}
		// A finished init container counts as ready.
		if c.init && c.state.Terminated != nil {
			out[i].Ready = c.state.Terminated.ExitCode == 0
		}
	}
	return out
}

// podPhase is the kubelet's rule. ended tells that no container will run again.
func podPhase(policy corev1.RestartPolicy, inits, mains []corev1.ContainerStatus, ended bool) corev1.PodPhase {
	for _, init := range inits {
		exit := init.State.Terminated
		if exit != nil && exit.ExitCode == 0 {
			continue
		}
		if ended || exit != nil && policy == corev1.RestartPolicyNever {
			return corev1.PodFailed
		}
		return corev1.PodPending
	}
	var running, waiting, stopped, succeeded int
	for _, main := range mains {
		switch {
		case main.State.Running != nil:
			running++
		case main.State.Terminated != nil:
			stopped++
			if main.State.Terminated.ExitCode == 0 {
				succeeded++
			}
		case main.LastTerminationState.Terminated != nil:
			stopped++ // in back-off
		default:
			waiting++
		}
	}
	switch {
	case ended && running == 0:
		if waiting == 0 && succeeded == stopped {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	case waiting > 0:
		return corev1.PodPending
	case running > 0 || policy == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case succeeded == stopped:
		return corev1.PodSucceeded
	case policy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	}
	return corev1.PodRunning
}

// podConditions returns the conditions that a node owns; those of others (such
// as PodScheduled) are merged by the API server. A transition time changes only
// with the status.
func podConditions(object *corev1.Pod, phase corev1.PodPhase, inits, mains []corev1.ContainerStatus, hasAddress bool, before []corev1.PodCondition, now metav1.Time) []corev1.PodCondition {
	initialized := condition(corev1.PodInitialized, "ContainersNotInitialized", "containers with incomplete status", unready(inits), phase)
	containersReady := condition(corev1.ContainersReady, "ContainersNotReady", "containers with unready status", unready(mains), phase)
	ready := containersReady
	ready.Type = corev1.PodReady
	if ready.Status == corev1.ConditionTrue {
		for _, gate := range object.Spec.ReadinessGates {
			if !conditionTrue(object.Status.Conditions, gate.ConditionType) {
				ready.Status, ready.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
				ready.Message = fmt.Sprintf("the status of pod readiness gate %q is not \"True\"", gate.ConditionType)
			}
		}
	}
	canStart := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
	if hasAddress && phase != corev1.PodSucceeded && phase != corev1.PodFailed {
		canStart.Status = corev1.ConditionTrue
	}
	out := []corev1.PodCondition{canStart, initialized, ready, containersReady}
	for i := range out {
		out[i].ObservedGeneration = object.Generation
		out[i].LastTransitionTime = now
		for _, old := range before {
			if old.Type == out[i].Type && old.Status == out[i].Status {
				out[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return out
}

func condition(kind corev1.PodConditionType, reason, message string, missing []string, phase corev1.PodPhase) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	switch {
	case phase == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
		if kind == corev1.ContainersReady {
			c.Status = corev1.ConditionFalse
		}
	case phase == corev1.PodFailed && kind == corev1.ContainersReady:
		c.Status, c.Reason = corev1.ConditionFalse, "PodFailed"
	case len(missing) > 0:
		c.Status, c.Reason = corev1.ConditionFalse, reason
		c.Message = fmt.Sprintf("%s: [%s]", message, strings.Join(missing, " "))
	}
	return c
}

func unready(statuses []corev1.ContainerStatus) []string {
	var names []string
	for _, status := range statuses {
		if !status.Ready {
			names = append(names, status.Name)
		}
	}
	return names
}

func conditionTrue(conditions []corev1.PodCondition, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}
