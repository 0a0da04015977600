"""Install Tuneline as a service of systemd: server and worker of this machine, as `make serve` starts them, or only a worker.

The service belongs to the user who installs it; installed by root, it belongs to the machine, and runs as the owner of the checkout.
Variables with secrets go into a file that only its owner can read, which is created without any. Repeat the command after an update.
"""

import argparse
import os
import pwd
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from flows.server.deploy import ROOT
from tuneline.files import replace_file
from tuneline.terminal import say

ENDS_WITHIN = {"serve": 150, "worker": 90}
"""Seconds until systemd kills what is left. Runs of a worker have 55 to save a checkpoint (flows/server/worker.py), after which
`serve` ends the server (flows/server/serve.py waits a minute for each of the two)."""
TEMPLATE = """\
# Variables of {service}, NAME=value; only you can read this file. After a change: {systemctl} restart {service}
{variables}
"""
VARIABLES = {
    "serve": "#PREFECT_HOME=/folder/of/the/database\n#HF_TOKEN=\n",
    "worker": "#PREFECT_API_URL=http://10.0.0.5:4200/api\n#PREFECT_API_AUTH_STRING=USER:PASSWORD\n#GIT_TOKEN=\n#HF_TOKEN=\n",
}
HARDENING = "NoNewPrivileges=yes\nLockPersonality=yes\nRestrictSUIDSGID=yes\nRestrictRealtime=yes\n"
"""Options that do not break training: code is compiled in memory, GPUs are devices, and results go into the checkout."""
HARDENING_OF_MACHINE = "ProtectSystem=full\nProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectControlGroups=yes\nPrivateTmp=yes\n"
"""Options that only the machine's systemd has rights for."""
UNIT = """\
# Written by: python -m flows.server.systemd. A change of your own belongs into: {systemctl} edit {service}
[Unit]
Description=Tuneline: {description} in {root}
Wants=network-online.target
After=network-online.target
# It never gives up: after hours without disk or network it must come back by itself.
StartLimitIntervalSec=0

[Service]
Type=exec
{user}WorkingDirectory={root}
ExecStart={command}
Environment={path}
Environment=PYTHONUNBUFFERED=1
EnvironmentFile=-{environment}
Restart=on-failure
RestartSec=30
# Later attempts wait longer, from systemd 254 on; an older one says that it ignores these two.
RestartSteps=6
RestartMaxDelaySec=900
# SIGTERM to the first process only: it ends its runs, which save a checkpoint, before the server that they report to.
KillMode=mixed
TimeoutStopSec={ends_within}
# A training that the kernel kills for its memory does not end the service.
OOMPolicy=continue
{hardening}
[Install]
WantedBy={target}
"""


@dataclass(frozen=True)
class Place:
    """Where systemd looks for units, and who runs them.

    Attributes:
        units: Folder of the unit files.
        environment: Folder of the files with variables.
        systemctl: The command.
        target: Target that starts the service.
        user: User that runs the service; ``None`` for the one whose systemd it is.
    """

    units: Path
    environment: Path
    systemctl: str
    target: str
    user: str | None

    @classmethod
    def here(cls) -> "Place":
        """Return the place of the user who runs this command."""
        if os.geteuid() == 0:
            owner = pwd.getpwuid(ROOT.stat().st_uid).pw_name
            return cls(Path("/etc/systemd/system"), Path("/etc/tuneline"), "systemctl", "multi-user.target", owner)
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return cls(home / "systemd" / "user", home / "tuneline", "systemctl --user", "default.target", None)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.systemd", description=__doc__)
    parser.add_argument("what", choices=ENDS_WITHIN, help="serve: server, deployments and worker; worker: only a worker")
    parser.add_argument("--print", action="store_true", help="print the unit file and write nothing")
    parser.epilog = "Arguments after -- are those of flows.server.serve or flows.server.worker: serve -- --port 4201"
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:cut])
    place = Place.here()
    text = unit(options.what, place, sys.argv[cut + 1 :])
    if options.print:
        say(text.rstrip("\n"))
        return
    try:
        say(install(options.what, place, text))
    except OSError as error:
        sys.exit(f"The service cannot be installed: {error}")


def service_name(what: str) -> str:
    """Return the name of the service."""
    return "tuneline" if what == "serve" else "tuneline-worker"


def unit(what: str, place: Place, arguments: list[str]) -> str:
    """Return the content of the unit file."""
    python = Path(sys.executable)
    words = ["-m", f"flows.server.{what}", *(word.replace("$", "$$") for word in arguments)]
    return UNIT.format(
        service=service_name(what),
        systemctl=place.systemctl,
        description="Prefect server and worker" if what == "serve" else "worker",
        root=_escaped(str(ROOT)),
        user=f"User={place.user}\n" if place.user else "",
        command=" ".join(map(_quoted, [str(python), *words])),
        path=_quoted(f"PATH={python.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        environment=_escaped(str(place.environment / f"{service_name(what)}.env")),
        ends_within=ENDS_WITHIN[what],
        hardening=HARDENING if place.user is None else HARDENING + HARDENING_OF_MACHINE,
        target=place.target,
    )


def install(what: str, place: Place, text: str) -> str:
    """Write the unit file, and the file with variables if there is none; return what to do next.

    Raises:
        SystemExit: Other users can read the variables.
    """
    service, file = service_name(what), place.units / f"{service_name(what)}.service"
    variables = place.environment / f"{service}.env"
    place.environment.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not variables.exists():
        descriptor = os.open(variables, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as content:
            content.write(TEMPLATE.format(service=service, systemctl=place.systemctl, variables=VARIABLES[what]).rstrip("\n") + "\n")
    if stat.S_IMODE(variables.stat().st_mode) & 0o077:
        sys.exit(f"Other users can read the secrets in {variables}. First: chmod 600 {variables}")
    place.units.mkdir(parents=True, exist_ok=True)
    with replace_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
    linger = "" if place.user else "  loginctl enable-linger                          # it runs while you are not logged in\n"
    return f"""Wrote {file}. Variables with secrets go into {variables}. Then:

  {place.systemctl} daemon-reload
  {place.systemctl} enable {service}
  {place.systemctl} restart {service}
{linger}  journalctl {"" if place.user else "--user "}--unit {service} --follow"""


def _escaped(text: str) -> str:
    """Return a text in which systemd replaces nothing."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """Return one word of an assignment or a command, whose arguments systemd searches for ``$`` as well."""
    return '"' + _escaped(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    main()
