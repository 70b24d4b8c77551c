package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod runs one pod from its binding to its end.
type pod struct {
	host            *host
	namespace, name string
	uid             types.UID
	folder          string
	restartPolicy   corev1.RestartPolicy
	log             *slog.Logger
	ending          *ending
	volumes         *volumes
	changed         broadcast     // the pod, or an object that it uses
	dirty           chan struct{} // the status wants to be published
	done            chan struct{} // closed when no process is left
	gone            chan struct{} // closed when the pod's files are removed too
	removal         sync.Once
	patching        sync.Mutex // status patches leave in order

	mu           sync.Mutex // guards all below, and the containers' state
	object       *corev1.Pod
	address      string
	startTime    metav1.Time
	inits, mains []*container
	conditions   []corev1.PodCondition
	failure      *podFailure
	ended        bool // no container will run again
}

// podFailure is a reason to fail that lies with the pod, not a container.
type podFailure struct{ reason, message string }

func newPod(h *host, object *corev1.Pod) *pod {
	p := &pod{
		host: h, object: object, namespace: object.Namespace, name: object.Name, uid: object.UID,
		folder: h.podFolder(object), restartPolicy: object.Spec.RestartPolicy,
		log:        h.log.With("pod", object.Namespace+"/"+object.Name),
		ending:     newEnding(),
		dirty:      make(chan struct{}, 1),
		done:       make(chan struct{}),
		gone:       make(chan struct{}),
		startTime:  metav1.Now(),
		conditions: object.Status.Conditions,
	}
	if object.Status.StartTime != nil {
		p.startTime = *object.Status.StartTime
	}
	for i := range object.Spec.InitContainers {
		name := object.Spec.InitContainers[i].Name
		p.inits = append(p.inits, newContainer(p, name, true, statusNamed(object.Status.InitContainerStatuses, name)))
	}
	for i := range object.Spec.Containers {
		name := object.Spec.Containers[i].Name
		p.mains = append(p.mains, newContainer(p, name, false, statusNamed(object.Status.ContainerStatuses, name)))
	}
	return p
}

// run lives as long as the pod has, or may yet have, processes.
func (p *pod) run() {
	go p.publish()
	defer p.touch()
	defer close(p.done)
	defer p.conclude()

	address, err := p.host.addresses.acquire()
	if err != nil {
		p.block("CreateContainerConfigError", err.Error())
		return
	}
	defer p.host.addresses.release(address)
	p.mu.Lock()
	p.address = address
	p.mu.Unlock()
	p.touch()

	if problems := unsupported(p.latest()); len(problems) > 0 {
		p.block("CreateContainerConfigError", strings.Join(problems, "; "))
		return
	}
	p.volumes = newVolumes(filepath.Join(p.folder, ".volumes"), p.host.objects, newTokens(p.host.client), p.facts())
	if !p.prepareVolumes() {
		return
	}
	fresh, stop := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() { p.volumes.keepFresh(fresh, p) })
	defer keeping.Wait()
	defer stop()

	if seconds := p.latest().Spec.ActiveDeadlineSeconds; seconds != nil {
		timer := time.AfterFunc(time.Until(p.startTime.Add(time.Duration(*seconds)*time.Second)), func() {
			p.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		})
		defer timer.Stop()
	}
	p.runContainers()
}

func (p *pod) runContainers() {
	for _, init := range p.inits {
		if init.run(); !init.succeeded() {
			return
		}
	}
	var all sync.WaitGroup
	for _, main := range p.mains {
		all.Go(main.run)
	}
	all.Wait()
}

// prepareVolumes waits until every volume could be written once.
func (p *pod) prepareVolumes() bool {
	for !p.ending.hasBegun() {
		changed := p.changed.wait()
		err := p.volumes.write(p.ending.begun, p.latest())
		if err == nil {
			return true
		}
		p.host.event(p.latest(), corev1.EventTypeWarning, "FailedMount", err.Error())
		p.waitAll("ContainerCreating", err.Error())
		select {
		case <-changed:
		case <-time.After(configRetryPeriod):
		case <-p.ending.begun.Done():
		}
	}
	return false
}

// block keeps a pod that can never run, with the reason in its status, until it
// is deleted.
func (p *pod) block(reason, message string) {
	p.log.Warn("this pod cannot run here", "reason", message)
	p.host.event(p.latest(), corev1.EventTypeWarning, "Failed", message)
	p.waitAll(reason, message)
	<-p.ending.begun.Done()
}

func (p *pod) waitAll(reason, message string) {
	p.mu.Lock()
	for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
		c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	p.mu.Unlock()
	p.touch()
}

// fail ends the pod and leaves it in phase Failed.
func (p *pod) fail(reason, message string) {
	p.mu.Lock()
	p.failure = &podFailure{reason, message}
	p.mu.Unlock()
	p.ending.end(graceOf(p.latest()))
}

// remove ends the pod and deletes its object when the last process is gone.
func (p *pod) remove(grace time.Duration) {
	p.ending.end(max(grace, forcedGrace))
	p.removal.Do(func() { go p.finishRemoval() })
}

func (p *pod) finishRemoval() {
	<-p.done
	p.host.deleteObject(p.namespace, p.name, p.uid, p.patchStatus)
	p.host.forget(p)
	close(p.gone)
	if err := clearPodFolder(p.folder, p.host.keepLogs); err != nil {
		p.log.Warn("files are left behind", "error", err)
	}
}

// update takes a changed pod: labels and annotations for downwardAPI volumes,
// images (a container with a new image is restarted in place).
func (p *pod) update(object *corev1.Pod) {
	p.mu.Lock()
	old := p.object
	p.object = object
	var replaced []*container
	for _, c := range p.mains {
		was, is := containerNamed(&old.Spec, c.name), containerNamed(&object.Spec, c.name)
		if was != nil && is != nil && was.Image != is.Image {
			replaced = append(replaced, c)
		}
	}
	p.mu.Unlock()
	for _, c := range replaced {
		c.replaceNow(replacement{reason: fmt.Sprintf("Container %s definition changed, will be restarted", c.name), always: true})
	}
	p.changed.wake()
}

func (p *pod) latest() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object
}

func (p *pod) facts() podFacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return podFacts{podIP: p.address, hostIP: p.host.address}
}

func graceOf(object *corev1.Pod) time.Duration {
	if object.Spec.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*object.Spec.TerminationGracePeriodSeconds) * time.Second
}

func containerNamed(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, container := range allContainers(spec) {
		if container.Name == name {
			return container
		}
	}
	return nil
}

func statusNamed(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
