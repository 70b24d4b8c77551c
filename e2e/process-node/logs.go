package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// containerLogs is the log file of a container. All runs append to one file,
// straight from the program, so that what a killed program said is never lost
// and a test can read the whole story; spans tells which part is whose.
type containerLogs struct {
	path string

	mu    sync.Mutex
	spans []logSpan
}

type logSpan struct {
	from, to int64
	ended    bool
}

const (
	followPeriod   = 200 * time.Millisecond
	lastWordsBytes = 2048
)

// begin opens the file for a new run.
func (l *containerLogs) begin() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = append(l.spans, logSpan{from: size})
	return file, nil
}

// end closes the span of the run that has just ended.
func (l *containerLogs) end() {
	info, err := os.Stat(l.path)
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &l.spans[len(l.spans)-1]
	last.to, last.ended = last.from, true
	if err == nil {
		last.to = info.Size()
	}
}

// span returns the run that is back runs before the last one.
func (l *containerLogs) span(back int) (logSpan, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.spans) - 1 - back
	if i < 0 {
		return logSpan{}, false
	}
	return l.spans[i], true
}

// lastWords is the end of the last run's log, as a termination message.
func (l *containerLogs) lastWords() string {
	span, ok := l.span(0)
	if !ok {
		return ""
	}
	file, err := os.Open(l.path)
	if err != nil {
		return ""
	}
	defer file.Close()
	from := max(span.from, span.to-lastWordsBytes)
	text, err := io.ReadAll(io.NewSectionReader(file, from, span.to-from))
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

// containerLog serves kubectl logs.
func (h *host) containerLog(ctx context.Context, namespace, podName, name string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	c, err := h.container(namespace, podName, name)
	if err != nil {
		return nil, err
	}
	if opts.Timestamps || opts.SinceSeconds > 0 || !opts.SinceTime.IsZero() {
		return nil, errdefs.InvalidInput("this node keeps what programs print as it is, without times: --timestamps, --since and --since-time are not supported")
	}
	back := 0
	if opts.Previous && !c.waitsForRestart() {
		back = 1
	}
	if _, ok := c.logs.span(back); !ok {
		if opts.Previous {
			return nil, errdefs.InvalidInputf("previous terminated container %q in pod %q not found", name, podName)
		}
		return nil, errdefs.InvalidInputf("container %q in pod %q is waiting to start", name, podName)
	}
	return c.logs.open(ctx, back, opts)
}

// waitsForRestart tells whether the last run is the previous one already.
func (c *container) waitsForRestart() bool {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	return c.state.Waiting != nil
}

func (l *containerLogs) open(ctx context.Context, back int, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	index := len(l.spans) - 1 - back
	l.mu.Unlock()
	reader := &logReader{ctx: ctx, logs: l, index: index, file: file, follow: opts.Follow}
	if reader.at, err = reader.start(opts.Tail); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if opts.LimitBytes > 0 {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(reader, int64(opts.LimitBytes)), file}, nil
	}
	return reader, nil
}

// logReader reads one run's span; following, it waits for more until the run
// has ended.
type logReader struct {
	ctx    context.Context
	logs   *containerLogs
	index  int
	file   *os.File
	at     int64
	follow bool
}

func (r *logReader) Close() error { return r.file.Close() }

// bounds returns the span's start, its present end, and whether that is final.
func (r *logReader) bounds() (from, to int64, final bool, err error) {
	r.logs.mu.Lock()
	span := r.logs.spans[r.index]
	r.logs.mu.Unlock()
	if span.ended {
		return span.from, span.to, true, nil
	}
	info, err := r.file.Stat()
	if err != nil {
		return 0, 0, false, err
	}
	return span.from, info.Size(), false, nil
}

func (r *logReader) Read(buffer []byte) (int, error) {
	for {
		_, to, final, err := r.bounds()
		if err != nil {
			return 0, err
		}
		if r.at < to {
			n, err := r.file.ReadAt(buffer[:min(int64(len(buffer)), to-r.at)], r.at)
			r.at += int64(n)
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		if final || !r.follow {
			return 0, io.EOF
		}
		select {
		case <-r.ctx.Done():
			return 0, io.EOF
		case <-time.After(followPeriod):
		}
	}
}

// start finds where the last n lines begin; 0 means all.
func (r *logReader) start(n int) (int64, error) {
	from, to, _, err := r.bounds()
	if err != nil || n == 0 {
		return from, err
	}
	chunk := make([]byte, 32<<10)
	at, newlines := to, 0
	for at > from {
		size := min(int64(len(chunk)), at-from)
		if _, err := r.file.ReadAt(chunk[:size], at-size); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := size - 1; i >= 0; i-- {
			// The newline that ends the last line does not count.
			if chunk[i] == '\n' && at-size+i != to-1 {
				if newlines++; newlines == n {
					return at - size + i + 1, nil
				}
			}
		}
		at -= size
	}
	return from, nil
}
