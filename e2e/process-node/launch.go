package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// launch starts the container's program as soon as its back-off and what it
// refers to allow. It returns nil if the pod ends first, or if a failed start
// is not to be repeated.
func (c *container) launch() *process {
	for !c.pod.ending.hasBegun() {
		// A request that came for an earlier program is met by any new one.
		select {
		case <-c.replace:
		default:
		}
		changed := c.pod.changed.wait()
		if !c.waitBackoff() {
			return nil
		}
		order, problem := c.prepare()
		if problem != nil {
			c.event(corev1.EventTypeWarning, "Failed", problem.message)
			c.setWaiting(problem.reason, problem.message)
			select {
			case <-changed:
			case <-time.After(configRetryPeriod):
			case <-c.pod.ending.begun.Done():
			}
			continue
		}
		if p := c.start(order); p != nil {
			return p
		}
		if !c.restartsAfter(startErrorCode) {
			return nil
		}
	}
	return nil
}

// startErrorCode is what Kubernetes reports for a program that did not start.
const startErrorCode = 128

// start starts the program; nil means that it failed, which counts as a run
// that ended at once.
func (c *container) start(order *stageOrder) *process {
	now := time.Now()
	if exit := c.lastExit(); exit != nil {
		c.backoff.restarted(exit.FinishedAt.Time, now)
	}
	log, err := c.logs.begin()
	if err == nil {
		defer log.Close()
		var p *process
		if p, err = c.pod.host.spawner.start(order, log); err == nil {
			c.noteStart(p, order.Image)
			return p
		}
		c.logs.end()
	}
	c.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
	c.pod.mu.Lock()
	if c.ran {
		c.restarts++
	}
	if c.state.Terminated != nil {
		c.last = c.state
	}
	c.ran, c.image, c.id = true, order.Image, newContainerID()
	c.pod.mu.Unlock()
	c.noteTerminated(corev1.ContainerStateTerminated{
		ExitCode: startErrorCode, Reason: "StartError", Message: err.Error(),
		StartedAt: metav1.NewTime(now), FinishedAt: metav1.Now(),
	})
	return nil
}

// waitBackoff waits until the container may start again; false if the pod ends
// first. A new image need not wait: it may be the cure.
func (c *container) waitBackoff() bool {
	exit := c.lastExit()
	if exit == nil {
		return true
	}
	pause := time.Until(c.backoff.startAt(exit.FinishedAt.Time))
	if pause <= 0 {
		return true
	}
	object := c.pod.latest()
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
		c.backoff.pause, c.name, object.Name, object.Namespace, object.UID)
	c.setWaiting("CrashLoopBackOff", message)
	c.event(corev1.EventTypeWarning, "BackOff", message)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case why := <-c.replace:
			if why.always {
				return true
			}
		case <-c.pod.ending.begun.Done():
			return false
		}
	}
}

// problem is why a container cannot start now, as its waiting state tells it.
type problem struct{ reason, message string }

// prepare resolves what the container is made of and lays out its folders.
func (c *container) prepare() (*stageOrder, *problem) {
	object, spec, h := c.pod.latest(), c.spec(), c.pod.host
	image, err := h.images.resolve(spec.Image)
	if err != nil {
		return nil, &problem{"ErrImagePull", err.Error()}
	}
	hostname := hostnameOf(object)
	env, err := resolveEnvironment(baseEnvironment(hostname, h.apiHost, h.apiPort), object, spec, c.pod.facts(), h.objects)
	if err != nil {
		return nil, &problem{"CreateContainerConfigError", err.Error()}
	}
	mounts, err := c.pod.volumes.mounts(object, spec, env)
	if err != nil {
		return nil, &problem{"CreateContainerConfigError", err.Error()}
	}
	c.pod.mu.Lock()
	c.env = env
	c.pod.mu.Unlock()
	work, err := c.freshFolders(spec.WorkingDir)
	if err != nil {
		return nil, &problem{"CreateContainerError", err.Error()}
	}
	argv := []string{image}
	if len(spec.Command) > 0 {
		argv = expandAll(spec.Command, env)
	}
	return &stageOrder{
		Hostname: hostname,
		RootFS:   filepath.Join(c.folder, "rootfs"),
		Mounts:   mounts,
		Work:     work,
		Image:    image,
		Argv:     append(argv, expandAll(spec.Args, env)...),
		Env:      env.list(),
	}, nil
}

// freshFolders makes the folders of one run: what an earlier run of the
// container wrote into its own is gone, as with any container.
func (c *container) freshFolders(workingDir string) (work string, err error) {
	work = filepath.Join(c.folder, "work")
	err = errors.Join(
		os.RemoveAll(work),
		os.MkdirAll(work, 0o755),
		os.MkdirAll(filepath.Join(c.folder, "rootfs"), 0o755),
	)
	if workingDir != "" {
		work = workingDir
	}
	return work, err
}

func hostnameOf(object *corev1.Pod) string {
	name := object.Spec.Hostname
	if name == "" {
		name = object.Name
	}
	if len(name) > validation.DNS1123LabelMaxLength {
		name = name[:validation.DNS1123LabelMaxLength]
	}
	return name
}

// preStop runs the hook of a container that is about to be stopped.
func (c *container) preStop(ctx context.Context, p *process, hook *corev1.LifecycleHandler) error {
	switch {
	case hook.Sleep != nil:
		select {
		case <-time.After(time.Duration(hook.Sleep.Seconds) * time.Second):
		case <-ctx.Done():
		case <-p.done:
		}
		return nil
	case hook.HTTPGet != nil:
		return c.httpGet(ctx, hook.HTTPGet)
	case hook.Exec != nil:
		return c.execProbe(ctx, p, hook.Exec)
	}
	return errors.New("this kind of preStop hook is not supported by this node")
}
