package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stageScratch holds the writable layers inside a container's root.
const stageScratch = "/.process-node"

// enterRoot makes folder the root: a memory file system that shows everything
// of the machine by bind mounts. Mount points that the machine does not have
// can be made in it without a trace outside.
func enterRoot(folder string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := "/"+entry.Name(), filepath.Join(folder, entry.Name())
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(source)
			if err != nil {
				return err
			}
			if err := os.Symlink(link, target); err != nil {
				return err
			}
		case entry.IsDir():
			if err := os.Mkdir(target, 0o755); err != nil {
				return err
			}
			if entry.Name() == "proc" {
				// Ours shows the processes of the new PID namespace. Some hosts do not
				// allow it; theirs is the next best.
				if unix.Mount("proc", target, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") == nil {
					continue
				}
			}
			if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				return fmt.Errorf("showing %s: %w", source, err)
			}
		}
	}
	if err := unix.Chroot(folder); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	return os.Chdir("/")
}

// bindAll binds the volumes, outer targets before inner ones.
func bindAll(mounts []stageMount) error {
	slices.SortStableFunc(mounts, func(a, b stageMount) int { return len(a.Target) - len(b.Target) })
	made := &mountPoints{}
	for _, mount := range mounts {
		info, err := os.Stat(mount.Source)
		if err != nil {
			return fmt.Errorf("mountPath %s: %w", mount.Target, err)
		}
		target, err := made.prepare(mount.Target, info.IsDir())
		if err != nil {
			return fmt.Errorf("mountPath %s: %w", mount.Target, err)
		}
		if err := unix.Mount(mount.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mountPath %s: binding: %w", mount.Target, err)
		}
		if mount.ReadOnly {
			if err := makeReadOnly(target); err != nil {
				return fmt.Errorf("mountPath %s: making it read-only: %w", mount.Target, err)
			}
		}
		made.bound = append(made.bound, target)
	}
	return nil
}

// makeReadOnly keeps the mount's other flags, which a user namespace may not drop.
func makeReadOnly(target string) error {
	var now unix.Statfs_t
	if err := unix.Statfs(target, &now); err != nil {
		return err
	}
	kept := uintptr(now.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, "")
}

// mountPoints makes mount points that do not exist. Where the folder around a
// new one belongs to the machine, it is first covered by a writable layer, so
// that the machine itself never changes.
type mountPoints struct {
	bound  []string // volumes, which may be written to
	layers int
}

func (m *mountPoints) prepare(target string, isDir bool) (string, error) {
	parent, missing := target, ""
	for {
		resolved, err := filepath.EvalSymlinks(parent)
		if err == nil {
			parent = resolved
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		missing = filepath.Join(filepath.Base(parent), missing)
		parent = filepath.Dir(parent)
	}
	if missing == "" {
		return parent, nil
	}
	if !m.inVolume(parent) {
		ours, err := onScratch(parent)
		if err != nil {
			return "", err
		}
		if !ours {
			if err := m.cover(parent); err != nil {
				return "", fmt.Errorf("covering %s with a writable layer: %w", parent, err)
			}
		}
	}
	full := filepath.Join(parent, missing)
	if isDir {
		return full, os.MkdirAll(full, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return "", err
	}
	return full, os.WriteFile(full, nil, 0o644)
}

func (m *mountPoints) inVolume(path string) bool {
	return slices.ContainsFunc(m.bound, func(volume string) bool {
		return path == volume || strings.HasPrefix(path, volume+"/")
	})
}

// onScratch tells whether a folder is on the root or on a layer over it, both
// of which are this container's alone.
func onScratch(path string) (bool, error) {
	var root, here unix.Statfs_t
	if err := unix.Statfs(path, &here); err != nil {
		return false, err
	}
	if err := unix.Statfs("/", &root); err != nil {
		return false, err
	}
	if here.Type == unix.TMPFS_MAGIC {
		var a, b unix.Stat_t
		if err := errors.Join(unix.Stat(path, &a), unix.Stat("/", &b)); err != nil {
			return false, err
		}
		return a.Dev == b.Dev, nil
	}
	// A layer of ours, not an overlay that the machine itself runs on.
	points, err := mountedUnder("/")
	if err != nil {
		return false, err
	}
	best := mountInfo{}
	for _, point := range points {
		if (path == point.path || strings.HasPrefix(path, point.path+"/")) && len(point.path) >= len(best.path) {
			best = point
		}
	}
	return best.source == stageScratch, nil
}

// cover mounts an overlay over folder; what is mounted below it stays visible.
func (m *mountPoints) cover(folder string) error {
	m.layers++
	layer := filepath.Join(stageScratch, strconv.Itoa(m.layers))
	upper, work, aside := filepath.Join(layer, "upper"), filepath.Join(layer, "work"), filepath.Join(layer, "aside")
	for _, dir := range []string{upper, work, aside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	inner, err := mountedUnder(folder)
	if err != nil {
		return err
	}
	if err := unix.Mount(folder, aside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`)
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", escape.Replace(folder), upper, work)
	if err := unix.Mount(stageScratch, folder, "overlay", 0, data); err != nil {
		return err
	}
	outer := "\x00" // whole trees move, as parts of one may not be shown alone
	for _, mount := range inner {
		if mount.path == outer || strings.HasPrefix(mount.path, outer+"/") {
			continue
		}
		outer = mount.path
		kept := filepath.Join(aside, strings.TrimPrefix(mount.path, folder))
		if err := unix.Mount(kept, mount.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keeping %s: %w", mount.path, err)
		}
	}
	return nil
}

type mountInfo struct{ path, source string }

// mountedUnder lists the mounts strictly below folder, ordered by path.
func mountedUnder(folder string) ([]mountInfo, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	prefix := strings.TrimSuffix(folder, "/") + "/"
	var out []mountInfo
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// ID PARENT DEV ROOT MOUNTPOINT OPTIONS [TAGS] - TYPE SOURCE SUPER
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		path := unescape.Replace(left[4])
		if strings.HasPrefix(path, prefix) && path != prefix {
			out = append(out, mountInfo{path, unescape.Replace(right[1])})
		}
	}
	slices.SortStableFunc(out, func(a, b mountInfo) int { return strings.Compare(a.path+"/", b.path+"/") })
	return out, lines.Err()
}
