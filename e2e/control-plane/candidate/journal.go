package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// event is one line of the output.
type event struct {
	// Wall is Unix time in nanoseconds, for reading beside other logs.
	Wall int64 `json:"t"`
	// Mono is CLOCK_MONOTONIC in nanoseconds: one clock for all processes of
	// the machine that no clock step moves, so intervals are judged by it.
	Mono     int64   `json:"mono"`
	Event    string  `json:"event"`
	Lease    string  `json:"lease,omitempty"`
	Identity string  `json:"identity"`
	Leader   *string `json:"leader,omitempty"`
}

// journal writes events, one write call a line, so that lines of several
// processes on one pipe never mix and nothing is lost by SIGKILL.
type journal struct {
	out      io.Writer
	identity string

	mu sync.Mutex
}

func newJournal(out io.Writer, identity string) *journal {
	return &journal{out: out, identity: identity}
}

func (j *journal) write(e event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		fatal(fmt.Errorf("read CLOCK_MONOTONIC: %w", err))
	}
	e.Wall, e.Mono, e.Identity = time.Now().UnixNano(), now.Nano(), j.identity
	line, err := json.Marshal(e)
	if err != nil {
		fatal(fmt.Errorf("encode event: %w", err))
	}
	if _, err := j.out.Write(append(line, '\n')); err != nil {
		// A history with holes would be judged as if nothing had happened.
		fatal(fmt.Errorf("write event: %w", err))
	}
}

// term writes the start and the stop of one term, each at most once and in
// order. client-go promises neither: it starts the work in a goroutine of its
// own, and it calls the stop callback even if the term never began.
type term struct {
	lease   string
	journal *journal

	mu           sync.Mutex
	led, stopped bool
}

func (t *term) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.led = true
		t.journal.write(event{Event: "started", Lease: t.lease})
	}
}

func (t *term) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.led {
		t.journal.write(event{Event: "stopped", Lease: t.lease})
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "candidate:", err)
	os.Exit(1)
}
