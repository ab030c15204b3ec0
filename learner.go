package main

import (
	"strings"
	"time"
	"unicode/utf8"
)

// The allowlist keeps unknown ids from using this machine. It is no proof of
// who somebody is: a page says the id, and only a person at this computer's
// terminal says an age.

// checkLearnerID checks the form of a learner's id.
func checkLearnerID(id string) error {
	if n := utf8.RuneCountInString(id); n < 1 || n > maxLearnerID {
		return problemf(kindInvalid, "learner_id must be 1 to %d characters long.", maxLearnerID)
	}
	if !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return problemf(kindInvalid, "learner_id must not hold control characters.")
	}
	return nil
}

// oldestAge is the highest age that is taken for one.
const oldestAge = 150

// addLearner puts a learner on the allowlist, with an age that the person at
// the terminal vouches for when it is not nil.
func addLearner(s *stateStore, id string, age *int, now time.Time) error {
	if err := checkLearnerID(id); err != nil {
		return err
	}
	return s.update(func(data *stateData) error {
		if _, ok := data.Learners[id]; ok {
			return problemf(kindConflict, "The learner %q is on the allowlist already.", id)
		}
		added, err := withAge(learner{AddedAt: now}, age, now)
		if err == nil {
			data.Learners[id] = added
		}
		return err
	})
}

// verifyLearner records the age of a learner on the allowlist.
func verifyLearner(s *stateStore, id string, age int, now time.Time) error {
	return s.update(func(data *stateData) error {
		known, ok := data.Learners[id]
		if !ok {
			return unknownLearner(id)
		}
		known, err := withAge(known, &age, now)
		if err == nil {
			data.Learners[id] = known
		}
		return err
	})
}

func withAge(l learner, age *int, now time.Time) (learner, error) {
	if age == nil {
		return l, nil
	}
	if *age < 0 || *age > oldestAge {
		return l, problemf(kindInvalid, "The age must be a number from 0 to %d.", oldestAge)
	}
	l.Age, l.VerifiedAt = new(*age), now
	return l, nil
}

// removeLearner takes a learner and the verdict on the age off the list.
// Sandboxes that are active stay until they end.
func removeLearner(s *stateStore, id string) error {
	return s.update(func(data *stateData) error {
		if _, ok := data.Learners[id]; !ok {
			return unknownLearner(id)
		}
		delete(data.Learners, id)
		return nil
	})
}

func unknownLearner(id string) error {
	return problemf(kindNotFound, "The learner %q is not on the allowlist: add it with agent-runtime learner add.", id)
}

// admitLearner reports whether a learner may have a sandbox.
func admitLearner(data *stateData, cfg sandboxConfig, id string) error {
	known, ok := data.Learners[id]
	if !ok {
		return problemf(kindForbidden, "The learner %q is not on this computer's allowlist: add it with %s.",
			id, shellQuote([]string{"agent-runtime", "learner", "add", id}))
	}
	if cfg.minAge == 0 {
		return nil
	}
	verify := cfg.verifyURL
	if verify == "" {
		verify = shellQuote([]string{"agent-runtime", "learner", "verify", id, "--age"}) + " AGE"
	}
	var p *problem
	switch {
	case known.Age == nil || known.VerifiedAt.IsZero():
		p = problemf(kindForbidden, "The age of the learner %q has not been verified: %s", id, verify)
	case *known.Age < cfg.minAge:
		p = problemf(kindForbidden, "The learner %q is younger than %d, which sandboxes need: %s", id, cfg.minAge, verify)
	default:
		return nil
	}
	p.members = map[string]string{"verify": verify}
	return p
}
