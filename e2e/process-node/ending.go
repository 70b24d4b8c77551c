package main

import (
	"context"
	"sync"
	"time"
)

// ending is the way of a pod to its end: begun, and then, after the grace
// period, killed. A later call can only bring the kill forward.
type ending struct {
	begun  context.Context
	killed context.Context

	begin func()
	kill  func()
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
}

func newEnding() *ending {
	e := &ending{}
	e.begun, e.begin = context.WithCancel(context.Background())
	e.killed, e.kill = context.WithCancel(context.Background())
	return e
}

func (e *ending) end(grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := time.Now().Add(grace)
	if e.timer == nil || at.Before(e.at) {
		if e.timer != nil {
			e.timer.Stop()
		}
		e.at, e.timer = at, time.AfterFunc(grace, e.kill)
	}
	e.begin()
}

func (e *ending) hasBegun() bool { return e.begun.Err() != nil }
