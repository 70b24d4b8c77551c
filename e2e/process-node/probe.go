package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe watches over one run of the container: first the startup probe, then
// liveness and readiness side by side. It returns when ctx ends.
func (c *container) probe(ctx context.Context, p *process) {
	spec := c.spec()
	if spec.StartupProbe != nil {
		if !c.follow(ctx, p, "Startup", spec.StartupProbe, func(healthy bool) (more bool) {
			if !healthy {
				c.killUnhealthy("startup", spec.StartupProbe)
			}
			return false
		}) {
			return
		}
		c.pod.mu.Lock()
		c.started, c.ready = true, spec.ReadinessProbe == nil
		c.pod.mu.Unlock()
		c.pod.touch()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if spec.LivenessProbe != nil {
			c.follow(ctx, p, "Liveness", spec.LivenessProbe, func(healthy bool) (more bool) {
				if !healthy {
					c.killUnhealthy("liveness", spec.LivenessProbe)
				}
				return healthy
			})
		}
	}()
	if spec.ReadinessProbe != nil {
		c.follow(ctx, p, "Readiness", spec.ReadinessProbe, func(healthy bool) (more bool) {
			c.pod.mu.Lock()
			c.ready = healthy && c.process == p
			c.pod.mu.Unlock()
			c.pod.touch()
			return true
		})
	}
	<-done
}

func (c *container) killUnhealthy(kind string, probe *corev1.Probe) {
	why := replacement{reason: fmt.Sprintf("Container %s failed %s probe, will be restarted", c.name, kind)}
	if probe.TerminationGracePeriodSeconds != nil {
		grace := time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
		why.grace = &grace
	}
	c.replaceNow(why)
}

// follow repeats a probe and tells every change of its verdict, until verdict
// wants no more or ctx ends. It returns the last verdict.
func (c *container) follow(ctx context.Context, p *process, kind string, probe *corev1.Probe, verdict func(healthy bool) (more bool)) (healthy bool) {
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second
	known := false
	var successes, failures int32
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		wait = max(time.Duration(probe.PeriodSeconds)*time.Second, time.Second)
		err := c.attempt(ctx, p, probe)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
			c.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
		}
		var now bool
		switch {
		case successes >= max(probe.SuccessThreshold, 1):
			now = true
		case failures >= max(probe.FailureThreshold, 1):
			now = false
		default:
			continue
		}
		if known && now == healthy {
			continue
		}
		known, healthy = true, now
		if !verdict(now) {
			return now
		}
	}
}

func (c *container) attempt(ctx context.Context, p *process, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(probe.TimeoutSeconds)*time.Second, time.Second))
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return c.httpGet(ctx, probe.HTTPGet)
	case probe.TCPSocket != nil:
		return c.tcpConnect(ctx, probe.TCPSocket)
	case probe.Exec != nil:
		return c.execProbe(ctx, p, probe.Exec)
	}
	return fmt.Errorf("this kind of probe is not supported by this node")
}

// probeClient shares nothing between probes: each must show that the server
// takes a new connection.
var probeClient = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the kubelet: probes do not check certificates
}}

func (c *container) httpGet(ctx context.Context, action *corev1.HTTPGetAction) error {
	address, err := c.target(action.Host, action.Port)
	if err != nil {
		return err
	}
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	url := scheme + "://" + address + "/" + strings.TrimPrefix(action.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/process-node")
	for _, header := range action.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
		}
		request.Header.Add(header.Name, header.Value)
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 200 && response.StatusCode < 400 {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 200)) // only to explain the failure
	return fmt.Errorf("HTTP probe failed with statuscode: %d %s", response.StatusCode, strings.TrimSpace(string(body)))
}

func (c *container) tcpConnect(ctx context.Context, action *corev1.TCPSocketAction) error {
	address, err := c.target(action.Host, action.Port)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// target is where a probe goes: the pod's own address unless it names a host.
func (c *container) target(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = c.pod.facts().podIP
	}
	if port.Type == intstr.Int {
		return net.JoinHostPort(host, strconv.Itoa(port.IntValue())), nil
	}
	for _, named := range c.spec().Ports {
		if named.Name == port.StrVal {
			return net.JoinHostPort(host, strconv.Itoa(int(named.ContainerPort))), nil
		}
	}
	if number, err := strconv.Atoi(port.StrVal); err == nil {
		return net.JoinHostPort(host, strconv.Itoa(number)), nil
	}
	return "", fmt.Errorf("port: found %q, which is no port of container %s", port.StrVal, c.name)
}
