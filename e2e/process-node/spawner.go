package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// spawner starts all processes from one OS thread that never ends. A death
// signal (PR_SET_PDEATHSIG) is sent when the parent thread ends, not the parent
// process, so a thread that the Go runtime may end must not start anything.
type spawner struct {
	program string
	starts  chan func()
}

// process is one running or ended container program.
type process struct {
	pid       int
	os        *os.Process
	startedAt time.Time
	done      chan struct{} // closed at the end; then the fields below are set
	endedAt   time.Time
	exitCode  int32
	signal    int32
}

func newSpawner() (*spawner, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the program's own path: %w", err)
	}
	s := &spawner{program: program, starts: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range s.starts {
			start()
		}
	}()
	return s, nil
}

// check starts a stage that ends before its exec, to find out at once whether
// this machine lets us do what every container needs.
func (s *spawner) check(folder string) error {
	root := filepath.Join(folder, "check")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	target := filepath.Join(folder, "check-target", "made", "on", "demand")
	defer os.RemoveAll(root)
	p, err := s.start(&stageOrder{Hostname: "check", RootFS: root, Probe: true, Mounts: []stageMount{{Source: folder, Target: target}}}, nil)
	if err == nil {
		<-p.done
		return nil
	}
	missing := "CAP_SYS_ADMIN and CAP_SYS_CHROOT (a privileged container has them), or a kernel with overlay file systems"
	if os.Geteuid() != 0 {
		missing = "root, or a machine that allows user namespaces to everyone (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
	}
	return fmt.Errorf("containers need mount, UTS and PID namespaces, bind mounts and chroot; missing here: %s: %w", missing, err)
}

// start runs one container program; log gets its output. It returns when the
// program runs, or with the reason why it cannot.
func (s *spawner) start(order *stageOrder, log *os.File) (*process, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	orderRead, orderWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orderRead.Close()
	defer orderWrite.Close()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reportRead.Close()
	defer reportWrite.Close()

	cmd := exec.Command(s.program, stageArgument)
	cmd.Env = []string{} // the stage takes nothing from the node's environment
	cmd.ExtraFiles = []*os.File{orderRead, reportWrite}
	if log != nil {
		cmd.Stdout, cmd.Stderr = log, log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// The PID namespace lets the kernel end all that a container has started
		// when its first process ends.
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		// Root inside a user namespace may do all that the stage does.
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	started := make(chan error, 1)
	s.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	reportWrite.Close()
	orderRead.Close()
	_, writeErr := io.Copy(orderWrite, bytes.NewReader(text))
	orderWrite.Close()
	report, readErr := io.ReadAll(reportRead)
	if len(report) > 0 || writeErr != nil || readErr != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if len(report) > 0 {
			return nil, errors.New(string(report))
		}
		return nil, errors.Join(writeErr, readErr)
	}
	p := &process{pid: cmd.Process.Pid, os: cmd.Process, startedAt: time.Now(), done: make(chan struct{})}
	go p.wait(cmd)
	return p, nil
}

func (p *process) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state says more than the error
	p.endedAt = time.Now()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.signal = int32(status.Signal())
		p.exitCode = 128 + p.signal
	} else {
		p.exitCode = int32(cmd.ProcessState.ExitCode())
	}
	close(p.done)
}

// stop asks the program to end and kills it when kill ends. It returns when the
// program has ended.
func (p *process) stop(kill context.Context) {
	// An error means that it has ended already; os.Process never signals a reused pid.
	_ = p.os.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-kill.Done():
		_ = p.os.Signal(syscall.SIGKILL)
		<-p.done
	}
}
