package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// options is the checked command line.
type options struct {
	kubeconfig    string
	nodeName      string
	root          string
	images        imageMap
	listen        string
	apiserverHost string // empty: as in the kubeconfig
	apiserverPort string
	shutdownGrace time.Duration
	keepLogs      bool
	logLevel      slog.Level
}

// parseOptions reads the command line; every problem found is in the error.
func parseOptions(args []string, usage io.Writer) (*options, error) {
	o := &options{images: imageMap{}}
	flags := flag.NewFlagSet("process-node", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the node's identity (rbac.yaml lists its rights)")
	flags.StringVar(&o.nodeName, "node-name", "", "name of the Node object")
	flags.StringVar(&o.root, "root", "", "folder for the pods' files, logs and pids; owned by one process-node at a time")
	flags.Var(o.images, "image", "NAME=/path/to/binary: what an image name means here (repeatable)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback address of the kubelet endpoint (kubectl logs, exec)")
	flags.StringVar(&o.apiserverHost, "apiserver-host", "", "KUBERNETES_SERVICE_HOST of the pods (default: from the kubeconfig)")
	flags.StringVar(&o.apiserverPort, "apiserver-port", "", "KUBERNETES_SERVICE_PORT of the pods (default: from the kubeconfig)")
	flags.DurationVar(&o.shutdownGrace, "shutdown-grace", 5*time.Second, "at SIGTERM: time from SIGTERM to SIGKILL for the pods' processes")
	flags.BoolVar(&o.keepLogs, "keep-logs", false, "keep the log files of removed pods")
	flags.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	problems := o.problems(flags.Args())
	if len(problems) > 0 {
		return nil, fmt.Errorf("bad command line:\n  %s", strings.Join(problems, "\n  "))
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, fmt.Errorf("--root: %w", err)
	}
	o.root = root
	return o, nil
}

func (o *options) problems(rest []string) []string {
	var found []string
	if len(rest) > 0 {
		found = append(found, fmt.Sprintf("unexpected argument %q: only flags are allowed", rest[0]))
	}
	if o.kubeconfig == "" {
		found = append(found, "--kubeconfig: missing, expected the path of a kubeconfig file")
	} else if _, err := os.Stat(o.kubeconfig); err != nil {
		found = append(found, fmt.Sprintf("--kubeconfig: found %q, which cannot be read: %v", o.kubeconfig, err))
	}
	if o.nodeName == "" {
		found = append(found, "--node-name: missing, expected a DNS name such as node-1")
	} else if wrong := validation.IsDNS1123Subdomain(o.nodeName); len(wrong) > 0 {
		found = append(found, fmt.Sprintf("--node-name: found %q: %s", o.nodeName, strings.Join(wrong, "; ")))
	}
	if o.root == "" {
		found = append(found, "--root: missing, expected a folder (made if it does not exist)")
	}
	if len(o.images) == 0 {
		found = append(found, "--image: missing, expected at least one NAME=/path/to/binary")
	}
	host, _, err := net.SplitHostPort(o.listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		found = append(found, fmt.Sprintf("--listen: found %q, expected a loopback address such as 127.0.0.1:0 (the endpoint has no authentication)", o.listen))
	}
	if (o.apiserverHost == "") != (o.apiserverPort == "") {
		found = append(found, "--apiserver-host and --apiserver-port: only one is given, expected both or neither")
	}
	if o.shutdownGrace < 0 {
		found = append(found, fmt.Sprintf("--shutdown-grace: found %s, expected 0s or more", o.shutdownGrace))
	}
	return found
}
