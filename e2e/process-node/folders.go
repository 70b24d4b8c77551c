package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// claimFolder makes sure that no other process-node works in folder. The claim
// ends with this process.
func claimFolder(folder string) error {
	// The descriptor stays open, and with it the claim, for the process's life.
	fd, err := unix.Open(filepath.Join(folder, "claim"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("--root: %w", err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("--root: found %s, which another process-node is using (%w)", folder, err)
	}
	return nil
}

// clearPodFolder removes a pod's files, except its logs if they are kept.
func clearPodFolder(folder string, keepLogs bool) error {
	if !keepLogs {
		return os.RemoveAll(folder)
	}
	containers, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the pod never came that far
	}
	if err != nil {
		return err
	}
	for _, container := range containers {
		path := filepath.Join(folder, container.Name())
		if strings.HasPrefix(container.Name(), ".") {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			continue
		}
		for _, part := range []string{"work", "rootfs", "pid"} {
			if err := os.RemoveAll(filepath.Join(path, part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeWhole replaces a file so that readers see the old or the new text.
func writeWhole(path, text string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}
