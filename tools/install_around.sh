#!/bin/sh
# What tests around paceline need and no wheel has: the daemons of SLURM, munge, shellcheck
# for the scripts that are submitted, a browser, and Prometheus. Nothing is done where all is there. Where there is no apt-get,
# or this user is not root, it says so: tests that need it are skipped then, and in
# `make test-around` a skip is a failure.
set -eu

PATH="$PATH:/usr/sbin"
missing=
for program in slurmctld slurmd sbatch srun munged shellcheck chromium prometheus; do
  command -v "$program" > /dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get > /dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "setup: not found:$missing; apt-get would install them, as root" >&2
  exit 0
fi

echo "setup: installing SLURM, shellcheck, chromium and prometheus, for tests"
# Nothing of it is to start by itself: tests start what they need, and end it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends \
  slurmctld slurmd slurm-client munge shellcheck chromium prometheus > /dev/null
