package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// options is what the command line asks for, already checked.
type options struct {
	kubeconfig      string
	namespace       string
	leases          []string
	identity        string
	leaseDuration   time.Duration
	renewDeadline   time.Duration
	retryPeriod     time.Duration
	releaseOnCancel bool
	sharedClient    bool
	actEvery        time.Duration
	onLost          string
}

// parse reads the command line. All problems are told at once.
func parse(args []string) (options, error) {
	var o options
	var count int
	var prefix string
	flags := flag.NewFlagSet("candidate", flag.ContinueOnError)
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `file`; empty: the pod's service account")
	flags.StringVar(&o.namespace, "namespace", "default", "namespace of the leases")
	flags.Func("lease", "`name` of a lease to campaign for; may be repeated", func(name string) error {
		o.leases = append(o.leases, name)
		return nil
	})
	flags.IntVar(&count, "leases", 0, "campaign for `N` leases named PREFIX-0 to PREFIX-(N-1)")
	flags.StringVar(&prefix, "prefix", "bench", "name prefix for --leases")
	flags.StringVar(&o.identity, "identity", "", "holder identity (default: host name and process id)")
	flags.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "LeaseDuration")
	flags.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "RenewDeadline")
	flags.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "RetryPeriod")
	flags.BoolVar(&o.releaseOnCancel, "release-on-cancel", true, "give the lease up when stopped")
	flags.BoolVar(&o.sharedClient, "shared-client", false, "one client set, and so one rate limit, for all leases")
	flags.DurationVar(&o.actEvery, "act-every", 0, "while leading, write an act event this often; 0: never")
	flags.StringVar(&o.onLost, "on-lost", "campaign", "after a lost term: campaign again, or exit with status 1")
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.Usage()
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w (see --help)", err)
	}

	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if flags.NArg() > 0 {
		complain("unexpected argument %q: only flags are allowed", flags.Arg(0))
	}
	if count < 0 {
		complain("--leases: found %d, allowed is 0 or more", count)
	}
	for i := range max(count, 0) {
		o.leases = append(o.leases, fmt.Sprintf("%s-%d", prefix, i))
	}
	if len(o.leases) == 0 {
		complain("no lease named: give --lease NAME (repeatable) or --leases N")
	}
	if o.actEvery < 0 {
		complain("--act-every: found %s, allowed is 0 or more", o.actEvery)
	}
	if o.onLost != "campaign" && o.onLost != "exit" {
		complain("--on-lost: found %q, allowed are campaign and exit", o.onLost)
	}
	if strings.TrimSpace(o.identity) == "" {
		host, err := os.Hostname()
		if err != nil {
			complain("--identity: none given and the host has no name: %w", err)
		}
		o.identity = fmt.Sprintf("%s_%d", host, os.Getpid())
	}
	return o, errors.Join(problems...)
}
