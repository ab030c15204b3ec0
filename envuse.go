package main

import "fmt"

// envUse says what uses the environment of a lab now: whoever started it. ""
// is nothing. An environment is named by the id of the labs that share it.
func envUse(id string, rs *runs, ks *kernels) string {
	if r, ok := rs.using(id); ok && r.Status == statusRunning {
		return fmt.Sprintf("the action %q of %s is running in it", r.Action, r.Principal)
	} else if ok {
		return fmt.Sprintf("what the action %q of %s left running still uses it, until the runtime ends", r.Action, r.Principal)
	}
	if found := ks.where(func(k labKey) bool { return k.lab == id }); len(found) > 0 {
		return fmt.Sprintf("a kernel of %s is running in it", found[0].who)
	}
	return ""
}

// removeUnused removes the environment id, unless something runs in it. What
// starts in the same moment finds it gone and says so.
func removeUnused(envs *environments, id string, rs *runs, ks *kernels) error {
	if err := checkEnvironmentID(id); err != nil {
		return err
	}
	if use := envUse(id, rs, ks); use != "" {
		return problemf(kindConflict, "The environment %s cannot be deleted now: %s. End that first.", id, use)
	}
	return envs.remove(id)
}
