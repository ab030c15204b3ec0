package main

// Labs on the command line: for authors to check and run, for learners to see
// and take back what they approved.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func labCommands() []command {
	return []command{
		{"lab init", "[DIR]", "write a commented lab.toml to start from, and its schema for editors", runLabInit},
		{"lab schema", "", "print the JSON schema of lab.toml, for editors", runLabSchema},
		{"lab check", "[DIR]", "tell every mistake of a lab.toml", runLabCheck},
		{"lab run", "DIR ACTION", "run an action of a local folder as a page would", runLabRun},
		{"lab approvals", "", "list the approved lab versions", runLabApprovals},
		{"lab forget", "REPO", "take back every approval of a repository", runLabForget},
	}
}

func runLabCheck(_ context.Context, c *cli, args []string) error {
	dir, err := folderArgument("lab check", args)
	if err != nil {
		return err
	}
	m, findings, err := readLocalManifest(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, manifestName)
	for _, f := range findings {
		fmt.Fprintf(c.stdout, "%s: %s\n", visible(path), visible(f.String()))
	}
	if len(findings) > 0 {
		return errFailed
	}
	fmt.Fprintf(c.stdout, "%s: valid, %s: %s\n", visible(path), counted(len(m.actions), "action"), actionNames(m.actions))
	return nil
}

// readLocalManifest reads the lab.toml of a local folder.
func readLocalManifest(dir string) (*manifest, []finding, error) {
	path := filepath.Join(dir, manifestName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, problemf(kindNotFound, "There is no lab.toml in %s; write one, or name the lab's folder.", dir)
	case err != nil:
		return nil, nil, problemf(kindUnacceptable, "%s cannot be read.", path).because(err)
	case !info.Mode().IsRegular():
		return nil, nil, problemf(kindUnacceptable, "%s must be a regular file, not a link, folder or device.", path)
	case info.Size() > manifestLimit:
		return nil, nil, problemf(kindUnacceptable, "%s is larger than %d bytes.", path, manifestLimit)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, problemf(kindUnacceptable, "%s cannot be read.", path).because(err)
	}
	m, findings := parseManifest(data)
	return m, findings, nil
}

// leftoverPoll is how often is looked whether what an action left running in
// the background has ended.
const leftoverPoll = 200 * time.Millisecond

// runLabRun runs an action in this terminal, with the same environment, echo,
// timeout and stop as a page gets. Ctrl-C stops the action.
func runLabRun(ctx context.Context, c *cli, args []string) error {
	rest, err := parseArgs(newFlags("lab run"), args, "DIR", "ACTION")
	if err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(rest[0])
	if err != nil {
		return fmt.Errorf("find %s: %w", rest[0], err)
	}
	m, findings, err := readLocalManifest(dir)
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		return manifestProblem(findings)
	}
	i := slices.IndexFunc(m.actions, func(a action) bool { return a.Name == rest[1] })
	if i < 0 {
		return problemf(kindNotFound, "The lab has no action %q; it has %s.", rest[1], actionNames(m.actions))
	}
	asked, force, stop := endSignals()
	defer stop()
	return c.runAction(asked, force, cfg, m.id, dir, m.actions[i])
}

func (c *cli) runAction(asked, force context.Context, cfg config, id, dir string, a action) error {
	if err := makeDataFolder(cfg.dir); err != nil {
		return err
	}
	ps := newProcesses()
	background, stop := context.WithCancel(context.Background())
	defer stop()
	go ps.adoptOrphans(background) // ends with stop
	envs := newEnvironments(cfg.dir, cfg, ps, c.logger(levelQuiet))
	defer envs.close()
	if !envs.ready(id) {
		fmt.Fprintf(c.stderr, "Making the Python environment of %s.\n", id)
		if _, err := envs.create(asked, id, ""); err != nil {
			return err
		}
	}
	fam, err := ps.newFamily("lab-run/" + rand.Text())
	if err != nil {
		return err
	}
	defer fam.kill()
	e := &execution{
		family: fam, dir: dir, env: childEnvironment(c.environ, envs.path(id)), steps: a.Steps,
		timeout: time.Duration(a.Timeout) * time.Second, grace: cfg.stopGrace, force: force.Done(),
	}
	o := e.run(asked, c.stdout)
	if o.left > 0 {
		fmt.Fprintln(c.stderr, "What the action left running ends with this command; under a page it stays until the runtime stops. Ctrl-C ends it.")
		awaitEnd(asked, fam)
	}
	if o.status != statusSucceeded {
		return errFailed
	}
	return nil
}

// awaitEnd waits until nobody of fam is left, or ctx ends.
func awaitEnd(ctx context.Context, fam *family) {
	tick := time.NewTicker(leftoverPoll)
	defer tick.Stop()
	for fam.alive() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func runLabApprovals(_ context.Context, c *cli, args []string) error {
	_, state, _, err := grantsFor(c, "lab approvals", args)
	if err != nil {
		return err
	}
	data, err := state.current()
	if err != nil {
		return err
	}
	if len(data.Approvals) == 0 {
		fmt.Fprintln(c.stdout, "No lab is approved.")
		return nil
	}
	rows := [][]string{{"SITE", "REPO", "COMMIT", "APPROVED"}}
	for key, a := range data.Approvals {
		if p, repo, commit, ok := splitApprovalKey(key); ok {
			rows = append(rows, []string{visible(string(p)), visible(repo), commit, localTime(a.ApprovedAt)})
		}
	}
	slices.SortFunc(rows[1:], slices.Compare)
	return printRows(c, rows)
}

func runLabForget(_ context.Context, c *cli, args []string) error {
	cfg, state, rest, err := grantsFor(c, "lab forget", args, "REPO")
	if err != nil {
		return err
	}
	count, err := forgetLab(state, rest[0])
	if err != nil {
		return err
	}
	tellRuntime(cfg)
	fmt.Fprintf(c.stdout, "Took back %s of %s.\n", counted(count, "approval"), visible(rest[0]))
	return nil
}
