package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	informersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// objects serves Secrets and ConfigMaps from one watch each, and tells pods
// when one that they use has changed.
type objects struct {
	client     kubernetes.Interface
	secrets    informersv1.SecretInformer
	configMaps informersv1.ConfigMapInformer
}

const liveReadTimeout = 5 * time.Second

func newObjects(client kubernetes.Interface, factory informers.SharedInformerFactory, changed func(namespace string, usedBy func(*corev1.Pod) bool)) (*objects, error) {
	o := &objects{client: client, secrets: factory.Core().V1().Secrets(), configMaps: factory.Core().V1().ConfigMaps()}
	watch := func(informer cache.SharedIndexInformer, uses func(*corev1.Pod, string) bool) error {
		notify := func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if meta, ok := object.(metav1.Object); ok {
				changed(meta.GetNamespace(), func(pod *corev1.Pod) bool { return uses(pod, meta.GetName()) })
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    notify,
			UpdateFunc: func(_, object any) { notify(object) },
			DeleteFunc: notify,
		})
		return err
	}
	if err := watch(o.secrets.Informer(), usesSecret); err != nil {
		return nil, err
	}
	return o, watch(o.configMaps.Informer(), usesConfigMap)
}

// secret reads from the watch, and from the API server if the watch does not
// know it yet: a Secret made just before its pod must not fail that pod.
func (o *objects) secret(namespace, name string) (*corev1.Secret, error) {
	secret, err := o.secrets.Lister().Secrets(namespace).Get(name)
	if !apierrors.IsNotFound(err) {
		return secret, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), liveReadTimeout)
	defer cancel()
	return o.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (o *objects) configMap(namespace, name string) (*corev1.ConfigMap, error) {
	configMap, err := o.configMaps.Lister().ConfigMaps(namespace).Get(name)
	if !apierrors.IsNotFound(err) {
		return configMap, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), liveReadTimeout)
	defer cancel()
	return o.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

func usesSecret(pod *corev1.Pod, name string) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName == name {
			return true
		}
		for _, source := range projections(volume) {
			if source.Secret != nil && source.Secret.Name == name {
				return true
			}
		}
	}
	for _, container := range allContainers(&pod.Spec) {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil && from.SecretRef.Name == name {
				return true
			}
		}
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Name == name {
				return true
			}
		}
	}
	return false
}

func usesConfigMap(pod *corev1.Pod, name string) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil && volume.ConfigMap.Name == name {
			return true
		}
		for _, source := range projections(volume) {
			if source.ConfigMap != nil && source.ConfigMap.Name == name {
				return true
			}
		}
	}
	for _, container := range allContainers(&pod.Spec) {
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil && from.ConfigMapRef.Name == name {
				return true
			}
		}
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == name {
				return true
			}
		}
	}
	return false
}

func projections(volume corev1.Volume) []corev1.VolumeProjection {
	if volume.Projected == nil {
		return nil
	}
	return volume.Projected.Sources
}

func allContainers(spec *corev1.PodSpec) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(spec.InitContainers)+len(spec.Containers))
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}
