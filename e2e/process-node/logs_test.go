package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

func logged(t *testing.T, l *containerLogs, back int, opts api.ContainerLogOpts) string {
	t.Helper()
	reader, err := l.open(context.Background(), back, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeRun(t *testing.T, l *containerLogs, text string) {
	t.Helper()
	file, err := l.begin()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestLogsShowOneRunEach(t *testing.T) {
	l := &containerLogs{path: filepath.Join(t.TempDir(), "c", "log")}
	writeRun(t, l, "first\nlast words\n")
	l.end()
	if got := l.lastWords(); got != "first\nlast words\n" {
		t.Errorf("last words: %q", got)
	}
	writeRun(t, l, "a\nb\nc")
	for _, c := range []struct {
		back int
		opts api.ContainerLogOpts
		want string
	}{
		{0, api.ContainerLogOpts{}, "a\nb\nc"},
		{0, api.ContainerLogOpts{Tail: 1}, "c"},
		{0, api.ContainerLogOpts{Tail: 2}, "b\nc"},
		{0, api.ContainerLogOpts{Tail: 9}, "a\nb\nc"},
		{0, api.ContainerLogOpts{LimitBytes: 3}, "a\nb"},
		{1, api.ContainerLogOpts{}, "first\nlast words\n"},
		{1, api.ContainerLogOpts{Tail: 1}, "last words\n"},
	} {
		if got := logged(t, l, c.back, c.opts); got != c.want {
			t.Errorf("%d runs back with %+v: found %q, expected %q", c.back, c.opts, got, c.want)
		}
	}
}

func TestFollowingEndsWithTheRun(t *testing.T) {
	l := &containerLogs{path: filepath.Join(t.TempDir(), "c", "log")}
	file, err := l.begin()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := l.open(context.Background(), 0, api.ContainerLogOpts{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader) // compared below
		read <- string(text)
	}()
	for _, text := range []string{"one\n", "two\n"} {
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	file.Close()
	l.end()
	writeRun(t, l, "of the next run\n")
	if got := <-read; got != "one\ntwo\n" {
		t.Errorf("found %q", got)
	}
}
