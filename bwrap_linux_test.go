package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSandboxIsDescribedAsTried(t *testing.T) {
	t.Parallel()
	plan := sandboxPlan{
		workspace: "/data/s/workspace", tmp: "/data/s/scratch/tmp", shm: "/data/s/scratch/shm",
		system:   []systemFolder{{"/bin", "usr/bin"}, {"/lib", ""}},
		runtimes: []string{"/opt/python"},
		passwd:   4, group: 5, hosts: 6, filter: 7, status: 8, block: 9,
	}
	want := `--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup
--disable-userns --uid 1000 --gid 1000 --hostname sandbox --cap-drop ALL --die-with-parent --new-session
--clearenv --setenv PATH /opt/python/bin:/usr/local/bin:/usr/bin:/bin --setenv HOME /workspace
--setenv LANG C.UTF-8 --setenv TERM dumb --setenv TMPDIR /tmp
--ro-bind /usr /usr --symlink usr/bin /bin --ro-bind /lib /lib
--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --ro-bind-try /etc/alternatives /etc/alternatives
--ro-bind-try /etc/localtime /etc/localtime --ro-bind /opt/python /opt/python
--ro-bind-data 4 /etc/passwd --ro-bind-data 5 /etc/group --ro-bind-data 6 /etc/hosts
--proc /proc --dev /dev --bind /data/s/scratch/shm /dev/shm --bind /data/s/scratch/tmp /tmp
--bind /data/s/workspace /workspace --chdir /workspace
--remount-ro /proc --remount-ro /dev --remount-ro / --seccomp 7 --json-status-fd 8 --block-fd 9`
	if got := plan.args(); !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("args = %q, want %q", got, strings.Fields(want))
	}
}

func TestLimitsAreLoweredToWhatMayBeSet(t *testing.T) {
	t.Parallel()
	hard := func(resource int) uint64 {
		if resource == 7 {
			return 64
		}
		return ^uint64(0)
	}
	for _, c := range []struct {
		counts, full bool
		want         string
	}{
		{true, false, "--core=0 --data=1073741824 --as=17179869184 --nofile=64 --fsize=67108864 --memlock=65536 --msgqueue=65536 --sigpending=256 --stack=8388608 --nproc=96"},
		{false, true, "--core=0 --data=1073741824 --as=17179869184 --nofile=64 --fsize=0 --memlock=65536 --msgqueue=65536 --sigpending=256 --stack=8388608"},
	} {
		want := "/usr/bin/prlimit " + c.want + " -- echo --core"
		got := strings.Join(limitedCommand([]string{"echo", "--core"}, processLimits(c.counts, c.full), hard), " ")
		if got != want {
			t.Errorf("command = %s, want %s", got, want)
		}
	}
}
