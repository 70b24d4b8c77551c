package main

import "time"

// The kubelet's constants: the first restart comes at once, then the pauses
// double from restartPauseMin to restartPauseMax, and a container that ran
// longer than restartPauseReset starts afresh.
const (
	restartPauseMin   = 10 * time.Second
	restartPauseMax   = 5 * time.Minute
	restartPauseReset = 2 * restartPauseMax
)

// backoff paces the restarts of one container.
type backoff struct {
	pause     time.Duration
	startedAt time.Time // of the last restart it allowed
}

// startAt returns when a container that ended at finished may start again.
// It equals finished if there is nothing to wait for.
func (b *backoff) startAt(finished time.Time) time.Time {
	if b.pause == 0 || finished.Sub(b.startedAt) > restartPauseReset {
		return finished
	}
	return finished.Add(b.pause)
}

// restarted notes a restart at now of a container that had ended at finished.
func (b *backoff) restarted(finished, now time.Time) {
	switch {
	case b.pause == 0 || finished.Sub(b.startedAt) > restartPauseReset:
		b.pause = restartPauseMin
	default:
		b.pause = min(2*b.pause, restartPauseMax)
	}
	b.startedAt = now
}
