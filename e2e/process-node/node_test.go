package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnImageIsFoundWithOrWithoutItsTag(t *testing.T) {
	images := imageMap{}
	for _, flag := range []string{"registry:5000/app=/bin/sh", "exact:v1=/bin/cat", "plain=/etc/passwd", "gone=/no/such/file"} {
		if err := images.Set(flag); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"registry:5000/app": "/bin/sh", "registry:5000/app:v2": "/bin/sh", "registry:5000/app:v2@sha256:00": "/bin/sh", "exact:v1": "/bin/cat",
	} {
		if got, err := images.resolve(name); err != nil || got != want {
			t.Errorf("%s: found %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"exact:v2": "no such image here: \"exact:v2\"; known images: exact:v1, gone, plain, registry:5000/app",
		"plain":    "not an executable file", "gone": "cannot be read",
	} {
		if _, err := images.resolve(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, expected %q", name, err, want)
		}
	}
	for _, bad := range []string{"x", "=/bin/sh", "x=", "plain=/bin/sh"} {
		if err := images.Set(bad); err == nil {
			t.Errorf("--image %s was taken", bad)
		}
	}
}

func TestPodsGetDifferentAddressesUntilTheyAreReleased(t *testing.T) {
	pool, err := newAddressPool()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.claim.Close()
	other, err := newAddressPool()
	if err != nil {
		t.Fatal(err)
	}
	defer other.claim.Close()
	if pool.network == other.network {
		t.Fatalf("two nodes share %s", pool)
	}
	seen := map[string]bool{}
	for range addressPoolSize {
		address, err := pool.acquire()
		if err != nil || seen[address] {
			t.Fatalf("address %q twice, or %v", address, err)
		}
		seen[address] = true
	}
	if address, err := pool.acquire(); err == nil {
		t.Fatalf("an exhausted pool gave %s", address)
	}
	freed := strings.Replace("127.N.1.5", "N", strings.Split(pool.String(), ".")[1], 1)
	pool.release(freed)
	if again, err := pool.acquire(); err != nil || again != freed {
		t.Errorf("found %q, %v, expected the released %s", again, err, freed)
	}
}

func TestABadCommandLineListsEveryProblem(t *testing.T) {
	_, err := parseOptions([]string{"--listen=0.0.0.0:1", "--node-name=A_b", "--apiserver-host=x", "--shutdown-grace=-1s", "extra"}, io.Discard)
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, part := range []string{"--kubeconfig: missing", `--node-name: found "A_b"`, "--root: missing", "--image: missing", `--listen: found "0.0.0.0:1"`, "--apiserver-host and --apiserver-port", "--shutdown-grace: found -1s", `unexpected argument "extra"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %q:\n%v", part, err)
		}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parseOptions([]string{"--kubeconfig=" + file, "--node-name=n", "--root=r", "--image=sh=/bin/sh"}, io.Discard); err != nil {
		t.Errorf("a good command line: %v", err)
	}
}

func TestAFolderBelongsToOneNode(t *testing.T) {
	folder := t.TempDir()
	if err := claimFolder(folder); err != nil {
		t.Fatal(err)
	}
	if err := claimFolder(folder); err == nil || !strings.Contains(err.Error(), "another process-node is using") {
		t.Errorf("found %v", err)
	}
}

func TestClearingAPodFolderCanKeepItsLogs(t *testing.T) {
	for _, keep := range []bool{true, false} {
		folder := t.TempDir()
		for _, file := range []string{"c/log", "c/pid", "c/work/x", ".volumes/v/..data/k"} {
			path := filepath.Join(folder, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := clearPodFolder(folder, keep); err != nil {
			t.Fatal(err)
		}
		var left []string
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				left = append(left, filepath.Base(path))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(left, " "); keep && got != "log" || !keep && got != "" {
			t.Errorf("keep %v: left %q", keep, got)
		}
	}
}
