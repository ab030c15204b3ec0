package main

import (
	"context"
	"io/fs"
	"path/filepath"
)

// diskUse is what things take on the disk, in bytes. What could not be
// measured in time is left out.
type diskUse struct {
	environments map[string]int64 // by their ids
	sandboxes    map[string]int64 // the active ones, with their snapshots
}

// measureUse measures all environments and active sandboxes until ctx ends.
func measureUse(ctx context.Context, envs *environments, boxes *sandboxes) (diskUse, error) {
	use := diskUse{environments: make(map[string]int64), sandboxes: make(map[string]int64)}
	list, err := envs.list()
	if err != nil {
		return use, err
	}
	for _, sb := range boxes.where(func(sb *sandbox) bool { return sb.ready && sb.record.active() }) {
		if ctx.Err() == nil {
			use.sandboxes[sb.record.ID] = boxes.folderSize(sb).bytes
		}
	}
	for _, env := range list {
		if size, err := folderBytes(ctx, envs.folder(env.id)); err == nil {
			use.environments[env.id] = size
		}
	}
	return use, nil
}

// folderBytes is what a folder takes on the disk. What it holds of others by
// links is not followed; what cannot be looked at counts as nothing.
func folderBytes(ctx context.Context, dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, unreadable error) error {
		if err := ctx.Err(); err != nil || unreadable != nil {
			return err
		}
		if info, err := entry.Info(); err == nil {
			sum += diskBytes(info)
		}
		return nil
	})
	return sum, err
}
