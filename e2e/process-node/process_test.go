package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary plays the stage, as process-node does, and a node that dies.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == stageArgument {
		os.Exit(stageMain())
	}
	if folder := os.Getenv("PROCESS_NODE_TEST_NODE"); folder != "" {
		if err := doomedNode(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// doomedNode starts a container that has a child, prints both pids, and waits.
func doomedNode(folder string) error {
	s, err := newSpawner()
	if err != nil {
		return err
	}
	order := shellOrder(folder, "sleep 1000 & echo $! > child; wait")
	p, err := s.start(order, nil)
	if err != nil {
		return err
	}
	fmt.Println(p.pid)
	select {}
}

func shellOrder(folder, script string, mounts ...stageMount) *stageOrder {
	root, work := filepath.Join(folder, "rootfs"), filepath.Join(folder, "work")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		panic(err)
	}
	return &stageOrder{
		Hostname: "pod-7", RootFS: root, Work: work, Mounts: mounts, Image: "/bin/sh",
		Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "GREETING=hello"},
	}
}

// needNamespaces skips a test where a node could not work either.
func needNamespaces(t *testing.T) {
	t.Helper()
	s, err := newSpawner()
	if err == nil {
		err = s.check(t.TempDir())
	}
	if err != nil {
		t.Skip(err)
	}
}

// finish runs a script to its end and returns its output.
func finish(t *testing.T, order *stageOrder, folder string) (string, *process) {
	t.Helper()
	s, err := newSpawner()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := s.start(order, log)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the script did not end")
	}
	return read(t, folder, "log"), p
}

func TestAContainerHasItsOwnHostNameVolumesAndProcesses(t *testing.T) {
	needNamespaces(t)
	folder := t.TempDir()
	volume := filepath.Join(folder, "volume")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "key"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	target := "/etc/process-node-test/deep"
	script := "hostname; echo $$ $GREETING; cat " + target + "/key; echo; cat /process-node-top; echo; touch " + target + "/no 2>/dev/null || echo read-only; pwd; exit 3"
	out, p := finish(t, shellOrder(folder, script,
		stageMount{Source: volume, Target: target, ReadOnly: true},
		stageMount{Source: filepath.Join(volume, "key"), Target: "/process-node-top", ReadOnly: true},
	), folder)
	want := fmt.Sprintf("pod-7\n1 hello\nsecret\nsecret\nread-only\n%s\n", filepath.Join(folder, "work"))
	if out != want {
		t.Errorf("found %q, expected %q", out, want)
	}
	if p.exitCode != 3 || p.signal != 0 {
		t.Errorf("exit code %d, signal %d", p.exitCode, p.signal)
	}
	for _, path := range []string{"/etc/process-node-test", "/process-node-top"} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was made on the machine itself (%v)", path, err)
		}
	}
	if name, _ := os.Hostname(); name == "pod-7" {
		t.Error("the machine's host name changed")
	}
}

func TestAProgramThatCannotStartSaysWhy(t *testing.T) {
	needNamespaces(t)
	s, err := newSpawner()
	if err != nil {
		t.Fatal(err)
	}
	order := shellOrder(t.TempDir(), "")
	order.Argv[0] = "/no/such/program"
	if _, err := s.start(order, nil); err == nil || !strings.Contains(err.Error(), `expected a program of this machine or "sh"`) {
		t.Errorf("found %v", err)
	}
	order.Argv[0], order.Work = "/opt/image/sh", "/no/such/folder"
	if _, err := s.start(order, nil); err == nil || !strings.Contains(err.Error(), "workingDir") {
		t.Errorf("found %v", err)
	}
}

func TestStopKillsAProgramThatIgnoresSIGTERM(t *testing.T) {
	needNamespaces(t)
	s, err := newSpawner()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script       string
		code, signal int32
	}{
		{"trap 'exit 5' TERM; touch armed; while :; do sleep 0.01; done", 5, 0},
		{"trap '' TERM; touch armed; while :; do sleep 0.01; done", 137, 9},
	} {
		folder := t.TempDir()
		p, err := s.start(shellOrder(folder, c.script), nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the trap to be armed", func() bool {
			_, err := os.Stat(filepath.Join(folder, "work", "armed"))
			return err == nil
		})
		grace := time.Minute
		if c.signal != 0 {
			grace = 100 * time.Millisecond
		}
		kill, cancel := context.WithTimeout(context.Background(), grace)
		p.stop(kill)
		cancel()
		if p.exitCode != c.code || p.signal != c.signal {
			t.Errorf("%s: exit code %d, signal %d", c.script, p.exitCode, p.signal)
		}
	}
}

func TestNoProcessOutlivesAKilledNode(t *testing.T) {
	needNamespaces(t)
	folder := t.TempDir()
	node := exec.Command(os.Args[0])
	node.Env = append(os.Environ(), "PROCESS_NODE_TEST_NODE="+folder)
	node.Stderr = os.Stderr
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container's child", func() bool {
		_, err := os.Stat(filepath.Join(folder, "work", "child"))
		return err == nil
	})
	// All processes of the container's PID namespace, seen from outside.
	family := namespaceMembers(t, pid)
	if len(family) < 2 {
		t.Fatalf("found processes %v, expected the container's first and its child", family)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // should the test fail
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait()
	for _, member := range family {
		eventually(t, fmt.Sprintf("the end of process %d", member), func() bool { return !running(member) })
	}
}

func namespaceMembers(t *testing.T, pid int) []int {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil {
			if ns, err := os.Readlink("/proc/" + entry.Name() + "/ns/pid"); err == nil && ns == want {
				found = append(found, number)
			}
		}
	}
	return found
}

// running tells whether a process exists and is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}
