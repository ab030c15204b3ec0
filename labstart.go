package main

// Which labs a site may use, and the start of their actions.

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// startableLabs lists the labs whose actions p may start now, and the versions that
// it would have to prepare again first, which asks nobody anything.
func (l *labs) startableLabs(p principal) (ready []*preparedLab, unprepared []source, err error) {
	data, err := l.state.current()
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	candidates := slices.Concat(slices.Collect(maps.Values(l.prepared))...)
	l.mu.Unlock()
	found := make(map[source]*preparedLab)
	for _, lab := range candidates {
		usable := l.approved(data, p, lab.checkout) && isFolder(lab.dir) && l.envs.ready(lab.manifest.id)
		if usable && (found[lab.source] == nil || lab.principal == p) {
			found[lab.source] = lab
		}
	}
	for key := range data.Approvals {
		kp, repo, commit, ok := splitApprovalKey(key)
		if src := (source{repo, commit}); ok && kp == p && found[src] == nil {
			unprepared = append(unprepared, src)
		}
	}
	slices.SortFunc(unprepared, compareSources)
	ready = slices.SortedFunc(maps.Values(found), func(a, b *preparedLab) int { return compareSources(a.source, b.source) })
	for i, lab := range ready {
		now := *lab // the files may have changed since it was prepared
		now.modified = lab.tree.modified(lab.dir)
		ready[i] = &now
	}
	return ready, unprepared, nil
}

func compareSources(a, b source) int {
	return cmp.Or(cmp.Compare(a.repo, b.repo), cmp.Compare(a.commit, b.commit))
}

// start runs an action of a prepared lab.
func (l *labs) start(p principal, labID, commit, name string) (runRecord, error) {
	lab, err := l.startable(p, labID, commit)
	if err != nil {
		return runRecord{}, err
	}
	i := slices.IndexFunc(lab.manifest.actions, func(a action) bool { return a.Name == name })
	if i < 0 {
		return runRecord{}, problemf(kindNotFound, "The lab has no action %q; it has %s.", name, actionNames(lab.manifest.actions))
	}
	if !isFolder(lab.dir) {
		return runRecord{}, problemf(kindConflict, "The lab's folder is gone; prepare the lab again, which fetches it anew.")
	}
	if !l.envs.ready(labID) {
		return runRecord{}, problemf(kindConflict, "The lab's Python environment is missing or broken; prepare the lab again, which makes it anew.")
	}
	var notes []string
	if changed := lab.tree.modified(lab.dir); len(changed) > 0 {
		notes = append(notes, modifiedNote(changed))
	}
	return l.runs.start(runSpec{
		principal: p, labID: labID, commit: commit, action: lab.manifest.actions[i],
		dir: lab.dir, env: childEnvironment(l.environ, l.envs.path(labID)), notes: notes,
	})
}

// startable finds the lab of this id and commit that p may use: one that it
// prepared itself first.
func (l *labs) startable(p principal, labID, commit string) (*preparedLab, error) {
	data, err := l.state.current()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	candidates := slices.Clone(l.prepared[preparedKey{labID, commit}])
	l.mu.Unlock()
	if len(candidates) == 0 {
		return nil, problemf(kindConflict, "This version of the lab %q is not prepared since the runtime started; call POST /labs/prepare first.", labID)
	}
	var found *preparedLab // one of its own if there is any, and the newest of those
	for _, lab := range candidates {
		if l.approved(data, p, lab.checkout) && (found == nil || lab.principal == p || found.principal != p) {
			found = lab
		}
	}
	if found == nil {
		return nil, problemf(kindForbidden, "This version of the lab %q is not approved for %s; call POST /labs/prepare, which asks in the terminal.", labID, p)
	}
	return found, nil
}

func actionNames(actions []action) string {
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = a.Name
	}
	return strings.Join(names, ", ")
}
