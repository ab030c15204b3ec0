package main

// What the person ends and takes back on the runtime's own page. Each goes the
// way that the command line or the caller itself would take.

import "net/http"

// takeBack has do take away what the body names, and acts on it at once.
func takeBack[T validator](s *server, w http.ResponseWriter, r *http.Request, do func(T) error) error {
	body, err := decode[T](w, r, bodyLimit)
	if err == nil {
		err = do(body)
	}
	if err == nil {
		_, err = s.grants()
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

type revokeSiteBody struct {
	Origin *string `json:"origin" schema:"required"`
}

func (b revokeSiteBody) validate() error { return required(member{"origin", b.Origin}) }

func (s *server) handleSiteRevoke(w http.ResponseWriter, r *http.Request) error {
	return takeBack(s, w, r, func(b revokeSiteBody) error { return revokePairing(s.state, principal(*b.Origin)) })
}

type revokeClientBody struct {
	Name *string `json:"name" schema:"required"`
}

func (b revokeClientBody) validate() error { return required(member{"name", b.Name}) }

func (s *server) handleClientRevoke(w http.ResponseWriter, r *http.Request) error {
	return takeBack(s, w, r, func(b revokeClientBody) error { return revokeClient(s.state, *b.Name) })
}

type forgetBody struct {
	Repo *string `json:"repo" schema:"required"`
}

func (b forgetBody) validate() error { return required(member{"repo", b.Repo}) }

func (s *server) handleLabForget(w http.ResponseWriter, r *http.Request) error {
	return takeBack(s, w, r, func(b forgetBody) error {
		_, err := forgetLab(s.state, *b.Repo)
		return err
	})
}

type shutdownBody struct {
	Principal *string `json:"principal" schema:"required"`
	LabID     *string `json:"lab_id" schema:"required"`
}

func (b shutdownBody) validate() error {
	return required(member{"principal", b.Principal}, member{"lab_id", b.LabID})
}

func (s *server) handleOwnKernelShutdown(w http.ResponseWriter, r *http.Request) error {
	return takeBack(s, w, r, func(b shutdownBody) error {
		return s.kernels.shutdown(r.Context(), principal(*b.Principal), *b.LabID)
	})
}

func (s *server) handleOwnRunStop(w http.ResponseWriter, r *http.Request) error {
	return s.stopRun(w, r, s.runs.owner(r.PathValue("run_id")))
}

func (s *server) handleEnvironmentDelete(w http.ResponseWriter, r *http.Request) error {
	if err := removeUnused(s.envs, r.PathValue("id"), s.runs, s.kernels); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) handleOwnSandboxDelete(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := s.sandboxes.delete(s.sandboxes.owner(id), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
