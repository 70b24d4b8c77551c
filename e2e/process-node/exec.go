package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"
)

// execProbe runs a command inside the container; its exit code is the verdict.
func (c *container) execProbe(ctx context.Context, p *process, action *corev1.ExecAction) error {
	cmd, err := c.command(ctx, p, action.Command)
	if err != nil {
		return err
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%q: %w: %s", action.Command, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// command prepares a command in the namespaces, root and environment of the
// running program. It dies with that program, the first of its PID namespace.
func (c *container) command(ctx context.Context, p *process, argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("command: found none, expected a program and its arguments")
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, fmt.Errorf("commands inside a pod need nsenter (package util-linux) on this machine: %w", err)
	}
	args := []string{"--target", fmt.Sprint(p.pid), "--mount", "--uts", "--pid", "--root", "--wd"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--preserve-credentials")
	}
	cmd := exec.CommandContext(ctx, nsenter, slices.Concat(args, []string{"--"}, argv)...)
	c.pod.mu.Lock()
	cmd.Env = c.env.list()
	c.pod.mu.Unlock()
	return cmd, nil
}

// runInContainer serves kubectl exec.
func (h *host) runInContainer(ctx context.Context, namespace, podName, containerName string, argv []string, attach api.AttachIO) error {
	c, err := h.container(namespace, podName, containerName)
	if err != nil {
		return err
	}
	if attach.TTY() {
		return errdefs.InvalidInput("this node gives no terminal: run kubectl exec without -t")
	}
	c.pod.mu.Lock()
	p := c.process
	c.pod.mu.Unlock()
	if p == nil {
		return errdefs.InvalidInputf("container %s of pod %s does not run", containerName, podName)
	}
	cmd, err := c.command(ctx, p, argv)
	if err != nil {
		return err
	}
	if out := attach.Stdout(); out != nil {
		cmd.Stdout = out
	}
	if out := attach.Stderr(); out != nil {
		cmd.Stderr = out
	}
	if in := attach.Stdin(); in != nil {
		cmd.Stdin = in
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

// container finds the container that a request of the kubelet endpoint names.
func (h *host) container(namespace, podName, name string) (*container, error) {
	for _, p := range h.named(namespace, podName) {
		if h.isCurrent(p) {
			for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
				if c.name == name {
					return c, nil
				}
			}
		}
	}
	return nil, errdefs.NotFoundf("no container %q of pod %s/%s on this node", name, namespace, podName)
}
