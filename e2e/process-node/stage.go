package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// stageArgument selects the stage; it is an internal interface.
const stageArgument = "stage"

// The stage's two extra file descriptors.
const (
	stageOrderFD  = 3 // its order, as JSON
	stageReportFD = 4 // the error, if it fails; closed by a successful exec
)

// stageOrder tells the stage what to become.
type stageOrder struct {
	Hostname string       `json:"hostname"`
	RootFS   string       `json:"rootfs"` // empty folder for the container's root
	Mounts   []stageMount `json:"mounts"`
	Work     string       `json:"work"`  // working folder
	Image    string       `json:"image"` // binary of the image
	Argv     []string     `json:"argv"`
	Env      []string     `json:"env"`
	Probe    bool         `json:"probe,omitempty"` // only find out whether all this is allowed
}

// stageMount binds a folder or file into the container.
type stageMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly"`
}

// The death signal belongs to the thread that armed it, which is the first one.
// An exec from any other thread would lose it, and the container would outlive
// its node; so the stage keeps to the first thread.
func init() {
	if len(os.Args) > 1 && os.Args[1] == stageArgument {
		runtime.LockOSThread()
	}
}

// stageMain runs in fresh mount, UTS and PID namespaces, sets them up and
// becomes the container's program, whose pid is therefore the stage's.
func stageMain() int {
	report := os.NewFile(stageReportFD, "report")
	if report == nil {
		fmt.Fprintln(os.Stderr, "process-node: stage is an internal command, started by the node itself")
		return 2
	}
	unix.CloseOnExec(stageReportFD)
	if err := becomeContainer(); err != nil {
		fmt.Fprint(report, err)
		return 1
	}
	return 0
}

func becomeContainer() error {
	file := os.NewFile(stageOrderFD, "order")
	// The order is complete only if the node is alive after our death signal was
	// armed: a node that died in between must not leave us behind.
	text, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	var order stageOrder
	if err := json.Unmarshal(text, &order); err != nil {
		return fmt.Errorf("the node died while it gave its order: %w", err)
	}
	if err := unix.Sethostname([]byte(order.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := enterRoot(order.RootFS); err != nil {
		return err
	}
	if err := bindAll(order.Mounts); err != nil {
		return err
	}
	if order.Probe {
		return nil
	}
	if err := os.Chdir(order.Work); err != nil {
		return fmt.Errorf("workingDir: %w", err)
	}
	path, err := programPath(order.Argv[0], order.Image, order.Env)
	if err != nil {
		return err
	}
	err = unix.Exec(path, order.Argv, order.Env)
	return fmt.Errorf("starting %s: %w", path, err)
}

// programPath finds the program that command[0] names: a path, a name in PATH,
// or, since the image's only file is its binary, any path of the same base name.
func programPath(name, image string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	} else {
		for _, variable := range env {
			if folders, ok := strings.CutPrefix(variable, "PATH="); ok {
				if err := os.Setenv("PATH", folders); err != nil {
					return "", err
				}
			}
		}
		path, err := exec.LookPath(name)
		if err == nil || errors.Is(err, exec.ErrDot) {
			return path, nil
		}
	}
	if filepath.Base(name) == filepath.Base(image) {
		return image, nil
	}
	return "", fmt.Errorf("command: found %q, expected a program of this machine or %q, the image's binary", name, filepath.Base(image))
}
