package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// volumes are the volumes of one pod, each a folder that the stage binds into
// the containers.
type volumes struct {
	folder  string
	objects objectReader
	tokens  *tokens
	facts   podFacts
	written map[string]*swapDir
}

func newVolumes(folder string, objects objectReader, tokens *tokens, facts podFacts) *volumes {
	return &volumes{folder: folder, objects: objects, tokens: tokens, facts: facts, written: map[string]*swapDir{}}
}

// write brings every volume of the pod up to date. A volume that cannot be
// (say, its Secret is gone) keeps what it had.
func (v *volumes) write(ctx context.Context, pod *corev1.Pod) error {
	var problems []error
	for i := range pod.Spec.Volumes {
		if err := v.writeOne(ctx, pod, &pod.Spec.Volumes[i]); err != nil {
			problems = append(problems, fmt.Errorf("volume %q: %w", pod.Spec.Volumes[i].Name, err))
		}
	}
	return errors.Join(problems...)
}

func (v *volumes) writeOne(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	switch {
	case volume.EmptyDir != nil:
		return os.MkdirAll(v.path(volume), 0o777)
	case volume.HostPath != nil:
		return prepareHostPath(volume.HostPath)
	}
	content, err := v.content(ctx, pod, volume)
	if err != nil {
		return err
	}
	dir, ok := v.written[volume.Name]
	if !ok {
		dir = &swapDir{path: v.path(volume)}
		v.written[volume.Name] = dir
	}
	return dir.write(content)
}

// path is the folder (or host path) that stands for the volume.
func (v *volumes) path(volume *corev1.Volume) string {
	if volume.HostPath != nil {
		return volume.HostPath.Path
	}
	return filepath.Join(v.folder, volume.Name)
}

// content is what a volume made of API objects should hold.
func (v *volumes) content(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (payload, error) {
	content := payload{}
	switch {
	case volume.Secret != nil:
		s := volume.Secret
		return content, v.addSecret(content, pod, s.SecretName, s.Items, modeOr(s.DefaultMode, 0o644), s.Optional)
	case volume.ConfigMap != nil:
		c := volume.ConfigMap
		return content, v.addConfigMap(content, pod, c.Name, c.Items, modeOr(c.DefaultMode, 0o644), c.Optional)
	case volume.DownwardAPI != nil:
		d := volume.DownwardAPI
		return content, v.addFields(content, pod, d.Items, modeOr(d.DefaultMode, 0o644))
	case volume.Projected != nil:
		mode := modeOr(volume.Projected.DefaultMode, 0o644)
		for _, source := range volume.Projected.Sources {
			if err := v.addSource(ctx, content, pod, &source, mode); err != nil {
				return nil, err
			}
		}
		return content, nil
	}
	return nil, errors.New(unsupportedVolume)
}

func (v *volumes) addSource(ctx context.Context, content payload, pod *corev1.Pod, source *corev1.VolumeProjection, mode fs.FileMode) error {
	switch {
	case source.ServiceAccountToken != nil:
		token, err := v.tokens.token(ctx, pod, source.ServiceAccountToken)
		if err != nil {
			return err
		}
		return content.put(source.ServiceAccountToken.Path, token, mode)
	case source.Secret != nil:
		return v.addSecret(content, pod, source.Secret.Name, source.Secret.Items, mode, source.Secret.Optional)
	case source.ConfigMap != nil:
		return v.addConfigMap(content, pod, source.ConfigMap.Name, source.ConfigMap.Items, mode, source.ConfigMap.Optional)
	case source.DownwardAPI != nil:
		return v.addFields(content, pod, source.DownwardAPI.Items, mode)
	}
	return errors.New(unsupportedProjection)
}

func (v *volumes) addSecret(content payload, pod *corev1.Pod, name string, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) error {
	secret, err := v.objects.secret(pod.Namespace, name)
	if skip, err := missing(err, optional); skip || err != nil {
		return err
	}
	return content.add(secretData(secret), items, mode, optional, fmt.Sprintf("Secret %s/%s", pod.Namespace, name))
}

func (v *volumes) addConfigMap(content payload, pod *corev1.Pod, name string, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) error {
	configMap, err := v.objects.configMap(pod.Namespace, name)
	if skip, err := missing(err, optional); skip || err != nil {
		return err
	}
	return content.add(configMapData(configMap), items, mode, optional, fmt.Sprintf("ConfigMap %s/%s", pod.Namespace, name))
}

func (v *volumes) addFields(content payload, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode fs.FileMode) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return fmt.Errorf("downwardAPI item %q: resourceFieldRef is not supported by this node; supported: fieldRef", item.Path)
		}
		value, err := fieldValue(pod, v.facts, item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		if err := content.put(item.Path, value, modeOr(item.Mode, mode)); err != nil {
			return err
		}
	}
	return nil
}

// keepFresh rewrites the volumes when an object or the pod changes and before
// tokens run out, until ctx ends.
func (v *volumes) keepFresh(ctx context.Context, p *pod) {
	for {
		changed := p.changed.wait()
		var retry <-chan time.Time
		if err := v.write(ctx, p.latest()); err != nil && ctx.Err() == nil {
			// A Secret that is gone comes back with a change, all else is tried again.
			if !apierrors.IsNotFound(err) {
				retry = time.After(tokenRetryPeriod)
			}
			p.log.Warn("a volume keeps its old content", "error", err)
		}
		var refresh <-chan time.Time
		if at, any := v.tokens.nextRefresh(); any {
			refresh = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-refresh:
		case <-retry:
		}
	}
}

// mounts lists what the stage binds where for one container.
func (v *volumes) mounts(pod *corev1.Pod, container *corev1.Container, env *environment) ([]stageMount, error) {
	out := make([]stageMount, 0, len(container.VolumeMounts))
	for _, mount := range container.VolumeMounts {
		var volume *corev1.Volume
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].Name == mount.Name {
				volume = &pod.Spec.Volumes[i]
			}
		}
		if volume == nil {
			return nil, fmt.Errorf("volumeMounts: found name %q, which is no volume of the pod", mount.Name)
		}
		source := v.path(volume)
		sub := mount.SubPath
		if mount.SubPathExpr != "" {
			sub = expand(mount.SubPathExpr, env.lookup)
		}
		if sub != "" {
			if !filepath.IsLocal(sub) {
				return nil, fmt.Errorf("volumeMounts %q: subPath %q leads out of the volume", mount.Name, sub)
			}
			source = filepath.Join(source, sub)
			if volume.EmptyDir != nil {
				if err := os.MkdirAll(source, 0o755); err != nil {
					return nil, err
				}
			}
		}
		// A subPath shows the file as it is now, without later updates, as everywhere.
		resolved, err := filepath.EvalSymlinks(source)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts %q: %w", mount.Name, err)
		}
		out = append(out, stageMount{
			Source:   resolved,
			Target:   filepath.Clean(mount.MountPath),
			ReadOnly: mount.ReadOnly || v.written[volume.Name] != nil,
		})
	}
	return out, nil
}

func prepareHostPath(source *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(source.Path, 0o755)
	case corev1.HostPathFileOrCreate:
		file, err := os.OpenFile(source.Path, os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return file.Close()
	}
	info, err := os.Stat(source.Path)
	if err != nil {
		return fmt.Errorf("hostPath: %w", err)
	}
	if kind == corev1.HostPathDirectory && !info.IsDir() || kind == corev1.HostPathFile && !info.Mode().IsRegular() {
		return fmt.Errorf("hostPath %s is not of type %s", source.Path, kind)
	}
	return nil
}
