package main

import (
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletVersion is the version of the client modules in go.mod; tools compare
// it with that of the API server.
const kubeletVersion = "v1.37.2"

// nodeObject is the Node as it is registered. Its capacity is meant to place
// every pod of a test, not to describe the machine.
func nodeObject(h *host, port int) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("500"),
	}
	now := metav1.Now()
	healthy := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: h.nodeName,
			Labels: map[string]string{
				corev1.LabelHostname:         h.nodeName,
				corev1.LabelOSStable:         runtime.GOOS,
				corev1.LabelArchStable:       runtime.GOARCH,
				"leasehold.dev/process-node": "true",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			// No host name: the API server would prefer it, and nothing resolves it.
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			Conditions: []corev1.NodeCondition{
				healthy(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "process-node runs pods as local processes"),
				healthy(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "memory is not watched"),
				healthy(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "disks are not watched"),
				healthy(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "process numbers are not watched"),
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, KernelVersion: kernelRelease(),
				OSImage: "local processes", KubeletVersion: kubeletVersion, ContainerRuntimeVersion: "process://1.0.0",
			},
		},
	}
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
