"""`firstfault demo`: a real two-process training job fails on one rank, and becomes one incident on a fresh service."""

import os
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from firstfault_server.cli import addresses, report, terminal
from firstfault_server.cli.child import ChildFailed, ChildService
from firstfault_server.cli.client import Client
from firstfault_server.demo.launcher import Ranks
from firstfault_server.demo.plan import Fault, Plan

RANKS = 2
JOB_WITHIN_S = 60.0
INCIDENT_WITHIN_S = 30.0
SETTLED_FOR_S = 2.0
"""After the verdict has settled, a second incident would have come within this."""
_ANY = ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
_USUAL = ("127.0.0.1:8080", "127.0.0.1:4318", "127.0.0.1:4317")

app = terminal.application("Fail a real two-process job on purpose and show the incident.")
app.info.no_args_is_help = False


@app.command()
def demo(
    stay: Annotated[bool, typer.Option("--stay", help="Leave the service running until interrupted.")] = False,
    output: terminal.OutputOption = None,
) -> None:
    """Fail a real two-process training job on purpose; exit 1 if no incident names the rank that failed."""
    form = terminal.choose(output)
    signal.signal(signal.SIGTERM, _ended)
    with tempfile.TemporaryDirectory(prefix="firstfault-demo-") as folder:
        try:
            status = _demo(Path(folder), form, stay)
        except ChildFailed as error:
            terminal.fail(str(error), terminal.EXIT_FOUND)
        except KeyboardInterrupt:
            status = terminal.EXIT_DONE if stay else 128 + signal.SIGINT
    if status:
        raise typer.Exit(status)


def _ended(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _demo(folder: Path, form: terminal.Form, stay: bool) -> int:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
    with ChildService(folder / "data", _USUAL if stay and _free(_USUAL) else _ANY, environ) as service:
        _say(f"the service answers at {service.api_url}; a training job of {RANKS} ranks starts, rank {Plan().fault_rank} will fail")
        run = f"demo-{secrets.token_hex(4)}"
        plan = Plan(fault=Fault.EXCEPTION)
        started = time.monotonic()
        codes = run_job(folder / "job", plan, environ, service.otlp_url, run)
        _say(f"the job has ended with exit statuses {codes} after {time.monotonic() - started:.1f} s")
        found = wait_for_incidents(Client(service.api_url, ""), run)
        status = _judge(found, plan, form)
        if stay:
            _say(f"the service goes on at {service.api_url} (OTLP at {service.otlp_url}); stop it with Ctrl-C")
            service.wait()
    return status


def _free(wanted: tuple[str, ...]) -> bool:
    for text in wanted:
        try:
            addresses.listen(addresses.parse(text)).close()
        except addresses.AddressError:
            return False
    return True


def run_job(folder: Path, plan: Plan, environ: dict[str, str], otlp_url: str, run: str) -> list[int | None]:
    """Run the job to its end; exit statuses by rank."""
    command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
    ranks = Ranks(command, RANKS, folder, environ | {"FIRSTFAULT_ENDPOINT": otlp_url, "FIRSTFAULT_RUN_ID": run})
    try:
        return ranks.watch(timeout_s=JOB_WITHIN_S)
    finally:
        ranks.stop()


def wait_for_incidents(client: Client, run: str, within_s: float = INCIDENT_WITHIN_S) -> list[dict[str, Any]]:
    """Incidents of the run once each has a settled verdict; whatever there is when the time is up."""
    deadline = time.monotonic() + within_s
    found: list[dict[str, Any]] = []
    settled_at: float | None = None
    while time.monotonic() < deadline:
        found = list(client.pages("/v1/incidents", 200, q=f'run:"{run}"'))
        settled = bool(found) and all(item["first_fault"]["status"] == "settled" for item in found)
        settled_at = (settled_at or time.monotonic()) if settled else None
        if settled_at is not None and time.monotonic() - settled_at >= SETTLED_FOR_S:
            break
        time.sleep(0.1)
    return found


def _judge(found: list[dict[str, Any]], plan: Plan, form: terminal.Form) -> int:
    if form == "table":
        for incident in found:
            report.print_incident(incident)
    else:
        terminal.emit({"items": found}, form)
    sys.stdout.flush()
    if len(found) != 1:
        _say(f"one incident was expected, there are {len(found)}")
        return terminal.EXIT_FOUND
    rank = found[0]["first_fault"]["rank"]
    if rank != plan.fault_rank:
        _say(f"the incident names rank {rank}, but rank {plan.fault_rank} failed")
        return terminal.EXIT_FOUND
    _say(f"one incident, and it names rank {rank}, which was made to fail")
    return terminal.EXIT_DONE


def _say(text: str) -> None:
    sys.stderr.write(f"demo: {terminal.clean(text)}\n")
    sys.stderr.flush()


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "demo")
