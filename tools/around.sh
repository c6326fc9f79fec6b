#!/bin/sh
# What tests around paceline need of Debian, where it is not there yet: only root may bring it.
set -eu
wanted=""
[ -x /usr/bin/chromium ] || wanted="$wanted chromium"
[ -x /usr/bin/prometheus ] || wanted="$wanted prometheus"
if [ -n "$wanted" ]; then
  echo "setup: installing$wanted (Debian)"
  apt-get update -qq
  # No service is to start by itself.
  [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted > /dev/null
fi
