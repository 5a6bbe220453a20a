"""Scripts of Flux containers, and the configuration of the brokers.

Flux is installed from a separate image: the init container copies its view (``/opt/view``, which links to software in
``/opt/software``) into a volume, and the entrypoint of the training container installs both at the paths that Flux
expects. The training image requires bash and the same operating system as the view.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

INIT: Final = """#!/bin/bash
# Copies Flux out of this image into the volume that the training container shares.
set -euo pipefail

root=/mnt/flux
rm -rf "$root/view" "$root/software"
mkdir -p "$root/view"
cp -R /opt/view/. "$root/view"
cp -R /opt/software "$root/software"
echo "Flux is in $root/view"
"""

_ENTRYPOINT: Final = """#!/bin/bash
# Starts Flux on this node. The first node runs the job's command in it, the others serve until that has ended.
set -euo pipefail

lead=@LEAD@
hosts=@HOSTS@
resources=(@RESOURCES@)
options=(@OPTIONS@)

root=/mnt/flux
view=$root/view
home=$root/config
socket=local://$home/run/flux/local

mkdir -p "$home/etc/flux/system/cron.d" "$home/etc/curve" "$home/run/flux" "$home/var/lib/flux"

# The view links to this place. What the training image has on its own path comes before the view.
cp -R "$root/software/." /opt/software/
export PATH=$PATH:$view/bin
export FLUX_RC_EXTRA=$view/etc/flux/rc1.d

# Flux runs with its own Python, whose links in the view point to where the view was built.
for library in "$view"/lib/python3.*; do
  version=${library##*/}
  if [ -d "$library" ] && [ -e "$view/bin/$version" ]; then
    ln -sfn "$version" "$view/bin/python3"
    ln -sfn "$version" "$view/bin/python"
    export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$library/site-packages
    break
  fi
done

# Flux accepts a key only from a file that no other user can read, which the mounted one is not for every user.
rm -f "$home/etc/curve/curve.cert"
(umask 077 && cat /curve/curve.cert > "$home/etc/curve/curve.cert")

flux R encode --hosts="$hosts" "${resources[@]}" > "$home/etc/flux/system/R"

# For people in a shell of this container: ". /mnt/flux/flux-view.sh", then "flux proxy $fluxsocket bash".
cat > "$root/flux-view.sh" <<END
export PATH=$PATH
export PYTHONPATH=${PYTHONPATH:-}
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$view/lib
export fluxsocket=$socket
END
cat > "$root/load-fluxion.sh" <<END
flux module remove sched-simple
flux module load sched-fluxion-resource
flux module load sched-fluxion-qmanager
END

broker=(
  -o,--config-path=/etc/flux-config
  -o,-Scron.directory="$home/etc/flux/system/cron.d"
  -o,-Stbon.fanout=256
  -o,-Srundir="$home/run/flux"
  -o,-Sstatedir="$home/var/lib/flux"
  -o,-Slocal-uri="$socket"
  -o,-Slog-stderr-level=0
  -o,-Slog-stderr-mode=local
)

if [ "$(hostname)" = "$lead" ]; then
  # The broker may hand its program to a shell, so the words of the command go into a file, each quoted.
  if [ $# -eq 0 ]; then
    echo "no command: Flux stays up for interactive use"
    echo "exec sleep infinity" > "$home/job.sh"
  else
    printf '%q ' exec flux run "${options[@]}" "$@" > "$home/job.sh"
  fi
  exec flux start "${broker[@]}" bash "$home/job.sh"
fi

until flux start "${broker[@]}"; do
  echo "Flux ended with exit status $? on $(hostname); starting it again in 5 seconds"
  sleep 5
done
"""


@dataclass(frozen=True)
class BrokerConfig:
    """Configuration of the brokers.

    Parameters
    ----------
    device
        Network device that the brokers bind to.
    domain
        Subdomain of the nodes' host names.
    hosts
        All nodes, as a Flux host list.
    queue_policy
        Queue policy of the Fluxion scheduler.
    """

    device: str
    domain: str
    hosts: str
    queue_policy: str

    def text(self) -> str:
        """Return the configuration as TOML."""
        lines = [
            "[access]",
            "allow-guest-user = true",
            "allow-root-owner = true",
            "",
            "[resource]",
            'path = "/mnt/flux/config/etc/flux/system/R"',
            "",
            "[bootstrap]",
            'curve_cert = "/mnt/flux/config/etc/curve/curve.cert"',
            "default_port = 8050",
            f"default_bind = {_toml(f'tcp://{self.device}:%p')}",
            f"default_connect = {_toml(f'tcp://%h.{self.domain}:%p')}",
            f"hosts = [{{ host = {_toml(self.hosts)} }}]",
            "",
            "[archive]",
            'dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"',
            'period = "1m"',
            'busytimeout = "50s"',
            "",
            "[sched-fluxion-qmanager]",
            f"queue-policy = {_toml(self.queue_policy)}",
            "",
        ]
        return "\n".join(lines)


def entrypoint(lead: str, hosts: str, resources: Sequence[str], options: Sequence[str]) -> str:
    """Return the entrypoint of the training container; its arguments are the job's command.

    Parameters
    ----------
    lead
        Host name of the first node, without domain.
    hosts
        All nodes, as a Flux host list.
    resources
        Options of ``flux R encode``: resources of each node.
    options
        Options of ``flux run``: resources of the command.
    """
    values = {
        "@LEAD@": shlex.quote(lead),
        "@HOSTS@": shlex.quote(hosts),
        "@RESOURCES@": shlex.join(resources),
        "@OPTIONS@": shlex.join(options),
    }
    script = _ENTRYPOINT
    for placeholder, value in values.items():
        script = script.replace(placeholder, value)
    return script


def _toml(text: str) -> str:
    """Return a TOML string; TOML uses the escapes of JSON, and also requires that of DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
