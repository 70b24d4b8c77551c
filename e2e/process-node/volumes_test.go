package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestASwapShowsAllNewFilesAndNoOldOnes(t *testing.T) {
	dir := &swapDir{path: filepath.Join(t.TempDir(), "v")}
	if err := dir.write(payload{"a": {"1", 0o644}, "sub/b": {"2", 0o600}}); err != nil {
		t.Fatal(err)
	}
	if read(t, dir.path, "a")+read(t, dir.path, "sub", "b") != "12" {
		t.Error("the files do not show what was written")
	}
	if info, err := os.Stat(filepath.Join(dir.path, "sub", "b")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v %v", info.Mode(), err)
	}
	before, err := os.Readlink(filepath.Join(dir.path, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(dir.path, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	if err := dir.write(payload{"a": {"3", 0o644}, "c": {"4", 0o644}}); err != nil {
		t.Fatal(err)
	}
	after, err := os.Readlink(filepath.Join(dir.path, dataLink))
	if err != nil || after == before {
		t.Errorf("..data still leads to %s (%v)", after, err)
	}
	if read(t, dir.path, "a")+read(t, dir.path, "c") != "34" {
		t.Error("the files do not show what was written")
	}
	entries, err := os.ReadDir(dir.path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if got := strings.Join(names, " "); got != dataLink+" "+after+" a c" && got != after+" "+dataLink+" a c" {
		t.Errorf("left behind: %s", got)
	}
}

func TestAnEqualPayloadIsNotWrittenAgain(t *testing.T) {
	dir := &swapDir{path: t.TempDir()}
	for range 2 {
		if err := dir.write(payload{"a": {"1", 0o644}}); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := os.Readlink(filepath.Join(dir.path, dataLink))
	if err := dir.write(payload{"a": {"1", 0o644}}); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.Readlink(filepath.Join(dir.path, dataLink)); second != first {
		t.Error("the same content was swapped in again")
	}
	if err := dir.write(payload{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir.path, "a")); !os.IsNotExist(err) {
		t.Errorf("an empty payload left a file: %v", err)
	}
}

func TestProjectedSourcesShareOneFolder(t *testing.T) {
	v := newVolumes(t.TempDir(), someObjects, nil, someFacts)
	mode := int32(0o400)
	object := somePod()
	object.Spec.Volumes = []corev1.Volume{{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "login"}, Items: []corev1.KeyToPath{{Key: "user", Path: "who/user", Mode: &mode}}}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Items: []corev1.KeyToPath{{Key: "mode", Path: "mode"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
		},
	}}}}
	if err := v.write(context.Background(), object); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(v.folder, "all")
	if got := read(t, folder, "who/user") + read(t, folder, "mode") + read(t, folder, "namespace"); got != "annfastshop" {
		t.Errorf("found %q", got)
	}
	if info, err := os.Stat(filepath.Join(folder, "who/user")); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the item's mode was not taken: %v %v", info, err)
	}
}

func TestAVolumeThatCannotBeReadSaysWhichAndWhy(t *testing.T) {
	optional := true
	for message, source := range map[string]corev1.VolumeSource{
		`volume "v": secrets "absent" not found`: {Secret: &corev1.SecretVolumeSource{SecretName: "absent"}},
		`has no key "k", which items asks for`:   {Secret: &corev1.SecretVolumeSource{SecretName: "login", Items: []corev1.KeyToPath{{Key: "k", Path: "p"}}}},
		`expected a relative path`:               {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Items: []corev1.KeyToPath{{Key: "mode", Path: "../out"}}}},
		"":                                       {Secret: &corev1.SecretVolumeSource{SecretName: "absent", Optional: &optional}},
	} {
		object := somePod()
		object.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		err := newVolumes(t.TempDir(), someObjects, nil, someFacts).write(context.Background(), object)
		if message == "" && err != nil || message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
			t.Errorf("found %v, expected %q", err, message)
		}
	}
}
