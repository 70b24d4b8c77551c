// Command control-plane is a whole Kubernetes control plane in one binary.
//
// It answers as etcd, kube-apiserver, kube-controller-manager, kube-scheduler
// or kubectl, chosen by its first argument or, behind a symbolic link, by the
// name it is called with. The parts are the unchanged upstream packages: what
// the tests meet is the real thing, only linked once instead of five times.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata" // CronJob time zones, on hosts without a zone database

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlerrors "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// components maps each name to a function that runs it and ends the process.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubectl":                 runKubectl,
}

func main() {
	run, args, err := choose(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(2)
	}
	// Every component reads os.Args itself, so each must see the arguments it
	// would have had as a binary of its own.
	os.Args = args
	run()
}

// choose finds the component that args ask for and the arguments it gets.
func choose(args []string) (func(), []string, error) {
	if len(args) > 0 {
		if run, ok := components[filepath.Base(args[0])]; ok {
			return run, args, nil
		}
	}
	if len(args) < 2 {
		return nil, nil, fmt.Errorf("no component named; first argument must be one of %s", names())
	}
	run, ok := components[args[1]]
	if !ok {
		return nil, nil, fmt.Errorf("unknown component %q; first argument must be one of %s", args[1], names())
	}
	return run, args[1:], nil
}

func names() string {
	list := make([]string, 0, len(components))
	for name := range components {
		list = append(list, name)
	}
	sort.Strings(list)
	return strings.Join(list, ", ")
}

// runKubectl repeats what kubectl's own main does: verbosity is set before the
// command tree is built, so that plug-in discovery can already log.
func runKubectl() {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) //nolint:errcheck
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlerrors.CheckErr(err)
	}
}
