package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	unsupportedVolume     = "this volume type is not supported by this node; supported: configMap, downwardAPI, emptyDir, hostPath, projected, secret"
	unsupportedProjection = "this projected source is not supported by this node; supported: configMap, downwardAPI, secret, serviceAccountToken"
)

// unsupported lists what a pod asks for and a node of plain processes cannot
// do. Such a pod is never started: half of what it asked for would be a lie.
func unsupported(pod *corev1.Pod) []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Secret != nil, volume.ConfigMap != nil, volume.DownwardAPI != nil, volume.EmptyDir != nil, volume.HostPath != nil:
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				if source.Secret == nil && source.ConfigMap == nil && source.DownwardAPI == nil && source.ServiceAccountToken == nil {
					say("volume %q: %s", volume.Name, unsupportedProjection)
				}
			}
		default:
			say("volume %q: %s", volume.Name, unsupportedVolume)
		}
	}
	if pod.Spec.HostPID {
		say("hostPID: true is not supported by this node")
	}
	if pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace {
		say("shareProcessNamespace: true is not supported by this node")
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			say("init container %q: restartPolicy Always (a sidecar) is not supported by this node", container.Name)
		}
	}
	for _, container := range allContainers(&pod.Spec) {
		found = append(found, unsupportedInContainer(container)...)
	}
	return found
}

func unsupportedInContainer(container *corev1.Container) []string {
	var found []string
	say := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("container %q: ", container.Name)+fmt.Sprintf(format, args...))
	}
	for what, probe := range map[string]*corev1.Probe{"livenessProbe": container.LivenessProbe, "readinessProbe": container.ReadinessProbe, "startupProbe": container.StartupProbe} {
		if probe != nil && probe.HTTPGet == nil && probe.TCPSocket == nil && probe.Exec == nil {
			say("%s: only httpGet, tcpSocket and exec are supported by this node", what)
		}
	}
	if hooks := container.Lifecycle; hooks != nil {
		if hooks.PostStart != nil {
			say("lifecycle.postStart is not supported by this node; supported: preStop")
		}
		if stop := hooks.PreStop; stop != nil && stop.Exec == nil && stop.Sleep == nil && stop.HTTPGet == nil {
			say("lifecycle.preStop: only exec, httpGet and sleep are supported by this node")
		}
	}
	if len(container.VolumeDevices) > 0 {
		say("volumeDevices is not supported by this node")
	}
	for _, mount := range container.VolumeMounts {
		if mount.MountPropagation != nil && *mount.MountPropagation != corev1.MountPropagationNone {
			say("volumeMounts %q: mountPropagation %s is not supported by this node; supported: None", mount.Name, *mount.MountPropagation)
		}
	}
	if container.TTY {
		say("tty: true is not supported by this node")
	}
	return found
}
