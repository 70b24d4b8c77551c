package main

import "sync"

// broadcast wakes everyone who waits; a wake-up with no one waiting is lost, so
// callers take the channel before they look at what it tells about.
type broadcast struct {
	mu      sync.Mutex
	channel chan struct{}
}

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.channel == nil {
		b.channel = make(chan struct{})
	}
	return b.channel
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.channel != nil {
		close(b.channel)
		b.channel = nil
	}
}
