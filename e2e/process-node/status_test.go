package main

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func runs() corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func exited(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", Ready: code == 0, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func waits(after *corev1.ContainerStatus) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	if after != nil {
		status.LastTerminationState = after.State
	}
	return status
}

func TestPhaseFollowsTheContainers(t *testing.T) {
	crashed := exited(1)
	always, onFailure, never := corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	type list = []corev1.ContainerStatus
	for _, c := range []struct {
		name         string
		policy       corev1.RestartPolicy
		inits, mains list
		ended        bool
		want         corev1.PodPhase
	}{
		{"not started", always, nil, list{waits(nil)}, false, corev1.PodPending},
		{"running", always, nil, list{runs()}, false, corev1.PodRunning},
		{"one still to start", always, nil, list{runs(), waits(nil)}, false, corev1.PodPending},
		{"in back-off", always, nil, list{waits(&crashed)}, false, corev1.PodRunning},
		{"between restarts", always, nil, list{exited(0)}, false, corev1.PodRunning},
		{"will be tried again", onFailure, nil, list{exited(1)}, false, corev1.PodRunning},
		{"job done", onFailure, nil, list{exited(0)}, true, corev1.PodSucceeded},
		{"job failed", never, nil, list{exited(1), exited(0)}, true, corev1.PodFailed},
		{"stopped well", always, nil, list{exited(0)}, true, corev1.PodSucceeded},
		{"stopped by a signal", always, nil, list{exited(143)}, true, corev1.PodFailed},
		{"ended before it started", always, nil, list{waits(nil)}, true, corev1.PodFailed},
		{"init runs", always, list{runs()}, list{waits(nil)}, false, corev1.PodPending},
		{"init failed for good", never, list{exited(1)}, list{waits(nil)}, false, corev1.PodFailed},
		{"init done", always, list{exited(0)}, list{runs()}, false, corev1.PodRunning},
	} {
		if got := podPhase(c.policy, c.inits, c.mains, c.ended); got != c.want {
			t.Errorf("%s: found %s, expected %s", c.name, got, c.want)
		}
	}
}

func TestReadyNeedsEveryContainerAndGate(t *testing.T) {
	now, earlier := metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour))
	object := &corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}}}
	before := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: earlier}}
	conditions := func(mains ...corev1.ContainerStatus) map[corev1.PodConditionType]corev1.PodCondition {
		out := map[corev1.PodConditionType]corev1.PodCondition{}
		for _, c := range podConditions(object, corev1.PodRunning, nil, mains, true, before, now) {
			out[c.Type] = c
		}
		return out
	}
	closed := conditions(runs())
	if closed[corev1.PodReady].Reason != "ReadinessGatesNotReady" || closed[corev1.ContainersReady].Status != corev1.ConditionTrue {
		t.Errorf("a closed gate: %+v", closed)
	}
	if closed[corev1.PodReady].LastTransitionTime != earlier {
		t.Error("the transition time moved without a transition")
	}
	object.Status.Conditions = []corev1.PodCondition{{Type: "example.com/open", Status: corev1.ConditionTrue}}
	open := conditions(runs())
	if ready := open[corev1.PodReady]; ready.Status != corev1.ConditionTrue || ready.LastTransitionTime != now {
		t.Errorf("all ready: %+v", ready)
	}
	if down := conditions(runs(), waits(nil))[corev1.PodReady]; down.Message != "containers with unready status: [c]" {
		t.Errorf("one container down: %+v", down)
	}
}

func TestAStatusPatchClearsReasonsAndReplacesAddresses(t *testing.T) {
	patch, err := statusPatch("u-1", corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.20.0.1", PodIPs: []corev1.PodIP{{IP: "127.20.0.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata map[string]string
		Status   map[string]any
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata["uid"] != "u-1" {
		t.Errorf("the patch is not bound to the pod: %s", patch)
	}
	if reason, ok := got.Status["reason"]; !ok || reason != nil {
		t.Errorf("an old reason would stay: %s", patch)
	}
	if list := got.Status["podIPs"].([]any); len(list) != 2 || list[0].(map[string]any)["$patch"] != "replace" {
		t.Errorf("an old address would stay: %s", patch)
	}
}
