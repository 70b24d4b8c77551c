package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configRetryPeriod paces new attempts at what a pod refers to and is not there.
const configRetryPeriod = 10 * time.Second

// container runs one container of a pod, again and again as its restart policy
// says.
type container struct {
	pod     *pod
	name    string
	init    bool
	folder  string
	backoff backoff          // only used by run
	replace chan replacement // the running program is to be replaced
	logs    *containerLogs   // has its own guard
	env     *environment     // of the running program; set before its start

	// Guarded by pod.mu.
	state, last    corev1.ContainerState
	restarts       int32
	ran            bool // it has been started before, maybe by an earlier node
	started, ready bool
	id             string
	image          string
	process        *process
}

// replacement asks for the end of the running program. It is followed by a new
// one if the restart policy allows any restart, or always.
type replacement struct {
	reason string
	grace  *time.Duration
	always bool
}

// newContainer continues what an earlier node has left in the pod's status.
func newContainer(p *pod, name string, init bool, before *corev1.ContainerStatus) *container {
	c := &container{
		pod: p, name: name, init: init,
		folder:  filepath.Join(p.folder, name),
		replace: make(chan replacement, 1),
		state:   corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waitingFirst(p.object, init)}},
	}
	c.logs = &containerLogs{path: filepath.Join(c.folder, "log")}
	if before == nil || before.State.Waiting != nil && before.LastTerminationState.Terminated == nil {
		return c
	}
	c.ran, c.restarts, c.last, c.id = true, before.RestartCount, before.LastTerminationState, before.ContainerID
	switch {
	case before.State.Terminated != nil:
		c.last = before.State
	case before.State.Running != nil:
		c.last = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "ContainerStatusUnknown", ContainerID: before.ContainerID,
			Message:   "The node was started anew while the container ran",
			StartedAt: before.State.Running.StartedAt, FinishedAt: metav1.Now(),
		}}
	}
	return c
}

func waitingFirst(object *corev1.Pod, init bool) string {
	if !init && len(object.Spec.InitContainers) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}

// run returns when the container will not run again.
func (c *container) run() {
	if c.finishedBefore() {
		return
	}
	for {
		p := c.launch()
		if p == nil {
			return
		}
		always := c.supervise(p)
		exit := c.noteExit(p)
		if c.pod.ending.hasBegun() || !always && !c.restartsAfter(exit.ExitCode) {
			return
		}
	}
}

// finishedBefore tells whether an earlier node saw the container's last end.
func (c *container) finishedBefore() bool {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	if c.last.Terminated == nil || c.restartsAfter(c.last.Terminated.ExitCode) {
		return false
	}
	c.state, c.last = c.last, corev1.ContainerState{}
	return true
}

func (c *container) restartsAfter(exitCode int32) bool {
	switch c.pod.restartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return exitCode != 0 || !c.init
	}
}

// supervise returns when the program has ended, and tells whether it must be
// started again whatever its exit code.
func (c *container) supervise(p *process) (always bool) {
	ctx, cancel := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	probing.Go(func() { c.probe(ctx, p) })
	defer probing.Wait()
	defer cancel()

	object := c.pod.latest()
	select {
	case <-p.done:
		return false
	case <-c.pod.ending.begun.Done():
		c.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.name)
		c.stop(p, c.pod.ending.killed)
		return false
	case why := <-c.replace:
		c.event(corev1.EventTypeNormal, "Killing", why.reason)
		grace := graceOf(object)
		if why.grace != nil {
			grace = *why.grace
		}
		kill, done := context.WithTimeout(c.pod.ending.killed, max(grace, forcedGrace))
		defer done()
		c.stop(p, kill)
		return why.always || c.pod.restartPolicy != corev1.RestartPolicyNever
	}
}

// stop runs the preStop hook and ends the program, both within kill.
func (c *container) stop(p *process, kill context.Context) {
	if hooks := c.spec().Lifecycle; hooks != nil && hooks.PreStop != nil {
		if err := c.preStop(kill, p, hooks.PreStop); err != nil {
			c.event(corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
		}
	}
	p.stop(kill)
}

// replaceNow asks for a replacement, unless one is asked for already.
func (c *container) replaceNow(why replacement) {
	select {
	case c.replace <- why:
	default:
	}
}

// noteStart makes the program visible: pid file first, so that whoever reads
// the status finds it.
func (c *container) noteStart(p *process, image string) {
	if err := writeWhole(filepath.Join(c.folder, "pid"), strconv.Itoa(p.pid)+"\n"); err != nil {
		c.pod.log.Warn("no pid file", "container", c.name, "error", err)
	}
	spec := c.spec()
	c.pod.mu.Lock()
	if c.ran {
		c.restarts++
	}
	if c.state.Terminated != nil {
		c.last = c.state
	}
	c.ran, c.process, c.image = true, p, image
	c.id = newContainerID()
	c.started = spec.StartupProbe == nil
	c.ready = c.started && spec.ReadinessProbe == nil
	c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.startedAt)}}
	c.pod.mu.Unlock()
	c.pod.touch()
	c.event(corev1.EventTypeNormal, "Started", "Started container "+c.name)
}

func (c *container) noteExit(p *process) corev1.ContainerStateTerminated {
	if err := os.Remove(filepath.Join(c.folder, "pid")); err != nil {
		c.pod.log.Warn("a pid file is left behind", "container", c.name, "error", err)
	}
	c.logs.end()
	exit := corev1.ContainerStateTerminated{
		ExitCode: p.exitCode, Signal: p.signal, Reason: "Completed",
		StartedAt: metav1.NewTime(p.startedAt), FinishedAt: metav1.NewTime(p.endedAt),
	}
	if exit.ExitCode != 0 {
		exit.Reason = "Error"
		if c.spec().TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			exit.Message = c.logs.lastWords()
		}
	}
	c.noteTerminated(exit)
	return exit
}

func (c *container) noteTerminated(exit corev1.ContainerStateTerminated) {
	c.pod.mu.Lock()
	exit.ContainerID = c.id
	c.state = corev1.ContainerState{Terminated: &exit}
	c.started, c.ready, c.process = false, false, nil
	c.pod.mu.Unlock()
	c.pod.touch()
}

// setWaiting shows why the container does not run; a finished run becomes its
// last state.
func (c *container) setWaiting(reason, message string) {
	c.pod.mu.Lock()
	if c.state.Terminated != nil {
		c.last = c.state
	}
	c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	c.pod.mu.Unlock()
	c.pod.touch()
}

// lastExit is the end of the most recent run, if there was one.
func (c *container) lastExit() *corev1.ContainerStateTerminated {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	if c.state.Terminated != nil {
		return c.state.Terminated
	}
	return c.last.Terminated
}

func (c *container) succeeded() bool {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
}

// spec is the container's part of the pod as it is now.
func (c *container) spec() *corev1.Container { return containerNamed(&c.pod.latest().Spec, c.name) }

func (c *container) event(kind, reason, message string) {
	c.pod.host.event(c.pod.latest(), kind, reason, message)
}

func newContainerID() string {
	var id [32]byte
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(id[:])
	return fmt.Sprintf("process://%s", hex.EncodeToString(id[:]))
}
