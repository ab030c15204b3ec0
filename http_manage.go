package main

// What the runtime's own page shows: everything that runs here and everything
// that was granted, whoever it belongs to. Texts from outside are made visible
// as in the terminal; origins, addresses and ids are plain as they are.

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"
)

// ownPrefix begins the paths of all that is for the own page alone.
const ownPrefix = "/manage"

// ownRuns is how many ended runs the page is told of.
const ownRuns = 100

type overviewAnswer struct {
	Version         string           `json:"version"`
	Protocol        string           `json:"protocol"`
	Addresses       []string         `json:"addresses"`
	Folder          string           `json:"folder"`
	PairingRequired bool             `json:"pairing_required"`
	Questions       []ownQuestion    `json:"questions"`
	Sites           []ownGrant       `json:"sites"`
	Clients         []ownGrant       `json:"clients"`
	Labs            []ownLab         `json:"labs"`
	Runs            []ownRun         `json:"runs"` // newest first: those that go on, and the last ended ones
	Kernels         []ownKernel      `json:"kernels"`
	Environments    []ownEnvironment `json:"environments"`
	Sandboxes       []ownSandbox     `json:"sandboxes"`
}

// ownQuestion is an open question as the terminal shows it, which is where it
// is answered.
type ownQuestion struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Body    []string `json:"body"`
	Asked   string   `json:"asked"`
	Waiting int      `json:"waiting"` // requests that wait for the answer
	Shown   bool     `json:"shown"`   // what is typed in the runtime's terminal answers it, and no other
}

// ownGrant is a site, named by its origin, or a local program that was let in.
type ownGrant struct {
	Name     string  `json:"name"`
	Scope    scope   `json:"scope"`
	Could    string  `json:"could"` // what the scope lets it do
	Since    string  `json:"since"`
	LastUsed *string `json:"last_used"`
}

type ownLab struct {
	Repo     string       `json:"repo"`
	Versions []ownVersion `json:"versions"` // approved last first
}

type ownVersion struct {
	Principal  principal      `json:"principal"`
	Commit     string         `json:"commit"`
	ApprovedAt string         `json:"approved_at"`
	Actions    []actionAnswer `json:"actions"` // none for a version whose commands are not kept
}

type ownRun struct {
	runAnswer
	Principal principal `json:"principal"`
}

type ownKernel struct {
	Principal principal `json:"principal"`
	LabID     string    `json:"lab_id"`
	Status    string    `json:"status"` // running, busy or starting
	LastUsed  string    `json:"last_used"`
	Memory    *int64    `json:"memory"` // bytes, with what it started; null where that is not known
}

type ownEnvironment struct {
	ID     string `json:"id"`
	Python string `json:"python"`
	Ready  bool   `json:"ready"`
	Path   string `json:"path"`
	Use    string `json:"use"` // what uses it; "" when nothing does
}

type ownSandbox struct {
	ID        string    `json:"id"`
	Principal principal `json:"principal"`
	LearnerID string    `json:"learner_id"`
	TaskID    string    `json:"task_id"`
	Workdir   string    `json:"workdir"`
	CreatedAt string    `json:"created_at"`
	LastUsed  string    `json:"last_used"`
}

func (s *server) handleOverview(w http.ResponseWriter, _ *http.Request) error {
	data, err := s.grants()
	if err != nil {
		return err
	}
	environments, err := s.ownEnvironments()
	if err != nil {
		return err
	}
	used := s.uses.all()
	return writeJSON(w, http.StatusOK, overviewAnswer{
		Version: s.version, Protocol: protocolVersion, Addresses: s.addresses(), Folder: visible(s.cfg.dir),
		PairingRequired: s.cfg.requirePairing, Questions: ownQuestions(s.questions.list()),
		Sites: ownSites(data, used), Clients: ownClients(data, used), Labs: ownLabs(data), Runs: latestRuns(s.runs),
		Kernels: ownKernels(s.kernels.all()), Environments: environments, Sandboxes: s.ownSandboxes(),
	})
}

func ownQuestions(open []question) []ownQuestion {
	told := []ownQuestion{}
	for _, q := range tellQuestions(open) {
		told = append(told, ownQuestion{ID: q.ID, Title: q.Title, Body: q.Body, Asked: timestamp(q.Asked), Waiting: q.Waiting, Shown: q.Shown})
	}
	return told
}

func ownSites(data *stateData, used map[principal]time.Time) []ownGrant {
	told := []ownGrant{}
	for _, origin := range slices.Sorted(maps.Keys(data.Pairings)) {
		told = append(told, ownGrantOf(data, used, principal(origin), origin))
	}
	return told
}

func ownClients(data *stateData, used map[principal]time.Time) []ownGrant {
	told := []ownGrant{}
	for _, name := range slices.Sorted(maps.Keys(data.Clients)) {
		told = append(told, ownGrantOf(data, used, principal(clientPrincipal+name), name))
	}
	return told
}

func ownGrantOf(data *stateData, used map[principal]time.Time, p principal, name string) ownGrant {
	has := granted(data, p)
	return ownGrant{Name: name, Scope: has, Could: has.text(), Since: timestamp(grantedSince(data, p)),
		LastUsed: timestampOrNull(lastUsed(used, data, p))}
}

func timestampOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(timestamp(t))
}

// ownLabs are the approved labs by repository.
func ownLabs(data *stateData) []ownLab {
	versions := make(map[string][]ownVersion)
	for key, a := range data.Approvals {
		p, repo, commit, ok := splitApprovalKey(key)
		if !ok {
			continue
		}
		version := ownVersion{Principal: p, Commit: commit, ApprovedAt: timestamp(a.ApprovedAt), Actions: []actionAnswer{}}
		for _, act := range a.Actions {
			version.Actions = append(version.Actions, visibleAction(act))
		}
		versions[repo] = append(versions[repo], version)
	}
	told := []ownLab{}
	for _, repo := range slices.Sorted(maps.Keys(versions)) {
		slices.SortFunc(versions[repo], func(a, b ownVersion) int {
			return cmp.Or(cmp.Compare(b.ApprovedAt, a.ApprovedAt), cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Commit, b.Commit))
		})
		told = append(told, ownLab{repo, versions[repo]})
	}
	return told
}

func visibleAction(a action) actionAnswer {
	answer := actionAnswerOf(a)
	answer.Label, answer.Description, answer.Steps = visible(a.Label), visible(a.Description), visibleLines(answer.Steps)
	return answer
}

func latestRuns(rs *runs) []ownRun {
	told := []ownRun{}
	ended := 0
	for _, r := range slices.Backward(rs.where(func(runRecord) bool { return true })) {
		if r.Status != statusRunning {
			ended++
		}
		if r.Status == statusRunning || ended <= ownRuns {
			told = append(told, ownRun{answerOf(r), r.Principal})
		}
	}
	return told
}

func ownKernels(list []kernelStatus) []ownKernel {
	told := []ownKernel{}
	for _, k := range list {
		kernel := ownKernel{Principal: k.who, LabID: k.lab, Status: k.state, LastUsed: timestamp(k.used)}
		if k.leader > 0 {
			kernel.Memory = memoryOrNull(residentMemory(k.leader))
		}
		told = append(told, kernel)
	}
	return told
}

func memoryOrNull(bytes int64) *int64 {
	if bytes == 0 {
		return nil
	}
	return &bytes
}

func (s *server) ownEnvironments() ([]ownEnvironment, error) {
	list, err := s.envs.list()
	if err != nil {
		return nil, err
	}
	told := []ownEnvironment{}
	for _, e := range list {
		told = append(told, ownEnvironment{ID: e.id, Python: visible(e.python), Ready: e.ready,
			Path: visible(s.envs.path(e.id)), Use: envUse(e.id, s.runs, s.kernels)})
	}
	return told, nil
}

func (s *server) ownSandboxes() []ownSandbox {
	told := []ownSandbox{}
	for _, i := range s.sandboxes.all() {
		told = append(told, ownSandbox{ID: i.id, Principal: i.principal, LearnerID: visible(i.learnerID), TaskID: visible(i.taskID),
			Workdir: visible(i.workdir), CreatedAt: timestamp(i.createdAt), LastUsed: timestamp(i.lastUse)})
	}
	return told
}

func (s *server) handleDoctor(w http.ResponseWriter, r *http.Request) error {
	found, err := s.doctor.get(r.Context())
	if err != nil {
		return err
	}
	checks := slices.Clone(found.Checks)
	for i := range checks {
		checks[i].Detail, checks[i].Hint = visible(checks[i].Detail), visible(checks[i].Hint)
	}
	return writeJSON(w, http.StatusOK, diagnosis{found.OK, checks})
}

// sizesAnswer tells what was measured. What is missing was not, in time.
type sizesAnswer struct {
	Environments []sizeAnswer `json:"environments"`
	Sandboxes    []sizeAnswer `json:"sandboxes"`
}

type sizeAnswer struct {
	ID    string `json:"id"`
	Bytes int64  `json:"bytes"`
}

func (s *server) handleSizes(w http.ResponseWriter, r *http.Request) error {
	use, err := s.sizes.get(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, sizesAnswer{sizesOf(use.environments), sizesOf(use.sandboxes)})
}

func sizesOf(bytes map[string]int64) []sizeAnswer {
	told := []sizeAnswer{}
	for _, id := range slices.Sorted(maps.Keys(bytes)) {
		told = append(told, sizeAnswer{id, bytes[id]})
	}
	return told
}

func (s *server) handleOwnRun(w http.ResponseWriter, r *http.Request) error {
	return s.answerRun(w, r, s.runs.owner(r.PathValue("run_id")))
}
