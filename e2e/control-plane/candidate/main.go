// Command candidate campaigns for Leases with client-go's own leader election.
//
// It is the yardstick of the benchmarks and the counterpart of the interop
// tests: the library most operators use, with its defaults, and nothing else.
// Whatever happens is one line of JSON on standard output; logs go to standard
// error. SIGTERM or SIGINT cancels every elector and ends the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	options, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err = run(ctx, options, newJournal(os.Stdout, options.identity))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
}

// run campaigns for every lease at once until ctx ends.
func run(ctx context.Context, o options, journal *journal) error {
	clients, err := clientSource(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var electors sync.WaitGroup
	failures := make(chan error, len(o.leases))
	journal.write(event{Event: "ready"})
	for _, lease := range o.leases {
		client, err := clients()
		if err != nil {
			failures <- err
			cancel()
			break
		}
		electors.Go(func() {
			if err := campaign(ctx, o, lease, client, journal); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	electors.Wait()
	journal.write(event{Event: "exit"})
	close(failures)
	return <-failures // nil if there was none
}

// campaign leads lease as often as it can be won. It returns when ctx ends, or
// after the first loss if the options say that a loss ends the program.
func campaign(ctx context.Context, o options, lease string, client kubernetes.Interface, journal *journal) error {
	for ctx.Err() == nil {
		term := &term{lease: lease, journal: journal}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Name: lease,
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: lease},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
			},
			LeaseDuration:   o.leaseDuration,
			RenewDeadline:   o.renewDeadline,
			RetryPeriod:     o.retryPeriod,
			ReleaseOnCancel: o.releaseOnCancel,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					term.start()
					act(ctx, o.actEvery, lease, journal)
				},
				OnStoppedLeading: term.stop,
				OnNewLeader: func(leader string) {
					journal.write(event{Event: "new_leader", Lease: lease, Leader: &leader})
				},
			},
		})
		if err != nil {
			return fmt.Errorf("lease %q: %w", lease, err)
		}
		elector.Run(ctx)
		if term.led && o.releaseOnCancel {
			// A release that was written leaves an empty holder as last seen.
			name := "released"
			if elector.GetLeader() != "" {
				name = "release_failed"
			}
			journal.write(event{Event: name, Lease: lease})
		}
		if term.led && o.onLost == "exit" && ctx.Err() == nil {
			return fmt.Errorf("lease %q: leadership lost", lease)
		}
	}
	return nil
}

// act marks, as long as the term's context lives, that this process would have
// worked: two processes that act at once are two leaders.
func act(ctx context.Context, every time.Duration, lease string, journal *journal) {
	if every <= 0 {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// Both may be ready after a pause; a lost term must not act.
			if ctx.Err() != nil {
				return
			}
			journal.write(event{Event: "act", Lease: lease})
		}
	}
}

// clientSource gives each elector its client set: one each, so that every
// elector has client-go's default rate limit to itself, or one for all.
func clientSource(o options) (func() (kubernetes.Interface, error), error) {
	var config *rest.Config
	var err error
	if o.kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %q: %w", o.kubeconfig, err)
	}
	fresh := func() (kubernetes.Interface, error) { return kubernetes.NewForConfig(rest.CopyConfig(config)) }
	if !o.sharedClient {
		return fresh, nil
	}
	shared, err := fresh()
	return func() (kubernetes.Interface, error) { return shared, err }, nil
}
