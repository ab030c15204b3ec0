package main

// Labs: preparing a repository's commit for a site, before its actions start.
// A lab is fetched once for all sites; each site needs the person's approval
// of every version, which pins the commit and the manifest.

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// labs prepares labs and starts their actions.
type labs struct {
	checkouts *checkouts
	envs      *environments
	spares    *labSpares
	state     *stateStore
	questions *questions
	runs      *runs
	environ   []string // of the runtime itself
	log       *slog.Logger
	prepares  *flights[*preparedLab]
	stop      context.CancelCauseFunc

	mu       sync.Mutex                     // guards the rest
	prepared map[preparedKey][]*preparedLab // latest last; each was approved, which bounds them
	folders  map[labUser]string             // the checkout that was prepared last
}

// labUser is a site's use of a lab, whatever its commit.
type labUser struct {
	principal principal
	labID     string
}

// preparedKey is how a page names a prepared lab.
type preparedKey struct{ labID, commit string }

// preparedLab is a lab prepared by one site since the runtime started.
type preparedLab struct {
	*checkout
	principal principal
	modified  []string // files of the commit that differ in the checkout
	notices   []string
}

// labDeps is what labs works with.
type labDeps struct {
	fetcher   *fetcher
	envs      *environments
	state     *stateStore
	questions *questions
	runs      *runs
	environ   []string
	log       *slog.Logger
}

// openLabs uses the checkouts of dir. Work for requests ends with base. The
// owner calls close at the end.
func openLabs(base context.Context, dir string, deps labDeps) (*labs, error) {
	base, stop := context.WithCancelCause(base)
	checkouts, err := openCheckouts(base, dir, deps.fetcher, deps.log)
	if err != nil {
		stop(err)
		return nil, err
	}
	return &labs{
		checkouts: checkouts, envs: deps.envs, spares: newLabSpares(deps.envs), state: deps.state,
		questions: deps.questions, runs: deps.runs, environ: deps.environ, log: deps.log,
		prepares: newFlights[*preparedLab](base), stop: stop,
		prepared: make(map[preparedKey][]*preparedLab),
		folders:  make(map[labUser]string),
	}, nil
}

// close ends what is being prepared, and returns when nothing half-made is left.
func (l *labs) close() {
	l.stop(shuttingDown())
	l.prepares.wait()
	l.checkouts.fetches.wait()
}

// prepare fetches a lab, has this site's use of it approved and makes its
// environment. However many ask for the same at once, it is done once.
func (l *labs) prepare(ctx context.Context, p principal, repo, commit string) (*preparedLab, error) {
	src, err := parseSource(repo, commit)
	if err != nil {
		return nil, err
	}
	key := string(p) + " " + src.repo + " " + src.commit
	lab, err := l.prepares.do(ctx, key, func(ctx context.Context) (*preparedLab, error) {
		return l.prepareOnce(ctx, p, src)
	})
	if err != nil {
		return nil, err
	}
	l.register(lab)
	l.checkouts.keep(lab.checkout)
	return lab, nil
}

func (l *labs) prepareOnce(ctx context.Context, p principal, src source) (*preparedLab, error) {
	var spare *labSpare
	defer func() { l.spares.drop(src, spare) }()
	if !l.checkouts.knows(src) {
		spare = l.spares.hold(src) // the lab looks new: an environment is made while git fetches
	}
	co, err := l.checkouts.get(ctx, src)
	if err != nil {
		return nil, err
	}
	data, err := l.state.current()
	if err != nil {
		return nil, err
	}
	lab := &preparedLab{checkout: co, principal: p, notices: co.tree.notices}
	approved, ready := l.approved(data, p, co), l.envs.ready(co.manifest.id)
	switch {
	case ready: // for another commit, or another lab of this id
		l.spares.drop(src, spare)
		spare = nil
	case spare == nil && !approved:
		spare = l.spares.hold(src) // made while the person reads
	}
	if !approved {
		if err := l.approve(ctx, data, lab, spare); err != nil {
			return nil, err
		}
	}
	if err := l.equip(ctx, lab, spare); err != nil {
		return nil, err
	}
	lab.modified = co.tree.modified(co.dir)
	return lab, nil
}

// equip gives the lab its environment unless it has one, from the spare when
// there is one.
func (l *labs) equip(ctx context.Context, lab *preparedLab, spare *labSpare) error {
	id := lab.manifest.id
	if l.envs.ready(id) {
		return nil
	}
	rebuilt := l.envs.broken(id)
	var err error
	if spare != nil {
		err = spare.adopt(ctx, l.envs, id)
	} else {
		_, err = l.envs.create(ctx, id, "")
	}
	if err == nil && rebuilt {
		lab.notices = append(slices.Clip(lab.notices), rebuiltNotice)
	}
	return err
}

// rebuiltNotice tells that what was installed in an environment is gone.
const rebuiltNotice = "The lab's Python environment could not be used any more and was made anew: packages that were installed in it are gone."

// approve has this site's use of the lab approved. Nobody needs to answer any
// more when the environment, made meanwhile, turns out to be impossible.
func (l *labs) approve(ctx context.Context, data *stateData, lab *preparedLab, spare *labSpare) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	if spare != nil {
		watch.Go(func() { // ends with the environment, or with the question
			select {
			case <-spare.done:
				if spare.err != nil {
					cancel(spare.err)
				}
			case <-ctx.Done():
			}
		})
	}
	err := l.ask(ctx, data, lab)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	watch.Wait()
	if err != nil {
		return err
	}
	return l.saveApproval(lab)
}

func (l *labs) approved(data *stateData, p principal, co *checkout) bool {
	a, ok := data.Approvals[approvalKey(p, co.source.repo, co.source.commit)]
	return ok && a.ManifestSHA256 == co.manifest.sha256
}

// ask puts the lab's question to the person.
func (l *labs) ask(ctx context.Context, data *stateData, lab *preparedLab) error {
	err := l.questions.ask(ctx, question{
		key:       strings.Join([]string{"lab", string(lab.principal), lab.source.repo, lab.source.commit, lab.manifest.sha256}, " "),
		principal: lab.principal,
		title:     whoAsks(lab.principal) + " asks to use a lab on this computer",
		freeNos:   1,
		body:      labQuestion(lab.principal, lab.source, lab.manifest, lab.notices, lastApproved(data, lab.principal, lab.source.repo)),
	})
	if isKind(err, kindForbidden) {
		return problemf(kindForbidden, "The lab was declined in the terminal; nothing of it can be started.").because(err)
	}
	return err
}

func (l *labs) saveApproval(lab *preparedLab) error {
	err := l.state.update(func(data *stateData) error {
		data.approve(lab.principal, lab.source.repo, lab.source.commit, approval{
			ManifestSHA256: lab.manifest.sha256,
			ApprovedAt:     time.Now().UTC(),
			Actions:        lab.manifest.actions,
		})
		return nil
	})
	if err != nil {
		return err
	}
	l.log.Info("lab approved", "principal", lab.principal, "repo", lab.source.repo, "commit", lab.source.commit)
	return nil
}

// lastApproved returns what this site had approved last in this repository;
// nil when it had nothing.
func lastApproved(data *stateData, p principal, repo string) *approval {
	var last *approval
	for key, a := range data.Approvals {
		kp, kr, _, ok := splitApprovalKey(key)
		if ok && kp == p && kr == repo && (last == nil || a.ApprovedAt.After(last.ApprovedAt)) {
			last = &a
		}
	}
	return last
}

// forgetLab takes back what was approved of a repository, for all sites, and
// returns how many versions that were.
func forgetLab(state *stateStore, repo string) (count int, err error) {
	err = state.update(func(data *stateData) error {
		count = data.forget(func(_ principal, of string) bool { return of == repo })
		if count == 0 {
			return problemf(kindNotFound, "No version of %s is approved; agent-runtime lab approvals lists those that are.", visible(repo))
		}
		return nil
	})
	return count, err
}

// register makes lab startable by its site.
func (l *labs) register(lab *preparedLab) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := preparedKey{lab.manifest.id, lab.source.commit}
	same := func(other *preparedLab) bool {
		return other.principal == lab.principal && other.source == lab.source
	}
	l.prepared[key] = append(slices.DeleteFunc(l.prepared[key], same), lab)
	l.folders[labUser{lab.principal, lab.manifest.id}] = lab.dir
}

// folder is the checkout of the lab that p prepared last; "" when it has
// prepared none since the runtime started.
func (l *labs) folder(p principal, labID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.folders[labUser{p, labID}]
}
