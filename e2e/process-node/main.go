// Command process-node is a Kubernetes node that runs pods as local processes:
// no container runtime, no image registry. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	// The stage is this same program started inside a container's fresh
	// namespaces; it ends by becoming the container's own program.
	if len(os.Args) > 1 && os.Args[1] == stageArgument {
		os.Exit(stageMain())
	}
	if err := nodeMain(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "process-node:", err)
		os.Exit(1)
	}
}

func nodeMain(args []string) error {
	opts, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: opts.logLevel}))

	// client-go calls much information that is a detail here.
	level := opts.logLevel
	if level == slog.LevelInfo {
		level = slog.LevelWarn
	}
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("from", "client-go"))

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	n, err := newNode(opts, logger)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- n.run(ctx, os.Stdout) }()

	select {
	case err = <-failed:
	case s := <-signals:
		logger.Info("stopping", "signal", s.String(), "grace", opts.shutdownGrace)
		// First the API side, so that processes ended here are not reported as
		// failed pods: a node that comes back runs them again.
		stop()
		<-failed
		err = nil
	}
	hurry, cancel := context.WithCancel(context.Background())
	go func() { <-signals; cancel() }()
	n.host.stopAll(hurry, opts.shutdownGrace)
	return err
}
