package main

import (
	"testing"
	"time"
)

func TestTheFirstRestartIsImmediateThenPausesDouble(t *testing.T) {
	var b backoff
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		at := b.startAt(now)
		if got := at.Sub(now); got != want*time.Second {
			t.Fatalf("restart %d: paused %s, expected %s", i+1, got, want*time.Second)
		}
		b.restarted(now, at)
		now = at.Add(time.Second) // it fails again after a second
	}
}

func TestALongRunForgetsEarlierFailures(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := backoff{pause: restartPauseMax, startedAt: now}
	ended := now.Add(restartPauseReset + time.Second)
	if at := b.startAt(ended); at != ended {
		t.Errorf("paused %s after a long run", at.Sub(ended))
	}
	b.restarted(ended, ended)
	if b.pause != restartPauseMin {
		t.Errorf("the next pause is %s, expected %s", b.pause, restartPauseMin)
	}
	soon := now.Add(restartPauseReset - time.Second)
	b = backoff{pause: restartPauseMax, startedAt: now}
	if at := b.startAt(soon); at == soon {
		t.Error("a run just under the limit forgot its failures")
	}
}
