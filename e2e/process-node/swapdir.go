package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// swapDir is a folder whose whole content changes at one instant, in the layout
// of the kubelet: files live in a dated folder, ..data is a link to it that is
// replaced by rename, and the visible names are links through ..data.
type swapDir struct {
	path    string
	written payload // what ..data shows now
}

const (
	dataLink = "..data"
	dataNew  = "..data_tmp"
)

// write makes the folder show content; it does nothing if it already does.
func (d *swapDir) write(content payload) error {
	if d.written != nil && d.written.equal(content) {
		return nil
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return err
	}
	dated, err := os.MkdirTemp(d.path, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	if err := d.swap(dated, content); err != nil {
		return errors.Join(fmt.Errorf("writing volume %s: %w", d.path, err), os.RemoveAll(dated))
	}
	d.written = content
	return d.tidy(filepath.Base(dated), content)
}

func (d *swapDir) swap(dated string, content payload) error {
	if err := os.Chmod(dated, 0o755); err != nil {
		return err
	}
	for name, file := range content {
		target := filepath.Join(dated, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(file.data), 0o600); err != nil {
			return err
		}
		// Not through WriteFile, whose mode the umask would narrow.
		if err := os.Chmod(target, file.mode); err != nil {
			return err
		}
	}
	next := filepath.Join(d.path, dataNew)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(dated), next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(d.path, dataLink)); err != nil {
		return err
	}
	for name := range content {
		top, _, _ := strings.Cut(name, "/")
		err := os.Symlink(filepath.Join(dataLink, top), filepath.Join(d.path, top))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// tidy removes the names and dated folders that content no longer needs.
func (d *swapDir) tidy(current string, content payload) error {
	tops := map[string]bool{dataLink: true, current: true}
	for name := range content {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !tops[entry.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.path, entry.Name())))
		}
	}
	return err
}
