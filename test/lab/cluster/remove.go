package cluster

import (
	"errors"
	"os"
	"path/filepath"
)

// removeDead removes the folders and cgroups of runs of which no process is left.
func removeDead(runs string) error {
	dirs, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, d := range dirs {
		c := &Cluster{Dir: filepath.Join(runs, d.Name())}
		lock, err := c.lock()
		if err != nil {
			continue
		}
		err = errors.Join(c.removeCgroups(), os.RemoveAll(c.Dir))
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes those of the run's containers, which containerd puts into one folder for all that it ever runs.
func (c *Cluster) removeCgroups() (failed error) {
	const ofNode = "containerd/root/io.containerd.grpc.v1.cri/*/*"
	containers, err := filepath.Glob(filepath.Join(c.Dir, ofNode))
	if err != nil {
		return err
	}
	more, err := filepath.Glob(filepath.Join(c.Dir, "nodes/*", ofNode))
	if err != nil {
		return err
	}
	for _, container := range append(containers, more...) {
		for _, hierarchy := range []string{"", "*/"} { // v2 has one, v1 one for each controller
			cgroups, err := filepath.Glob("/sys/fs/cgroup/" + hierarchy + "k8s.io/" + filepath.Base(container))
			if err != nil {
				return err
			}
			for _, cgroup := range cgroups {
				failed = errors.Join(failed, os.Remove(cgroup))
			}
		}
	}
	return failed
}
