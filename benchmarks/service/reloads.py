"""Ask ``tuneline serve`` while its model is replaced: is a request lost, or wrong?

Clients keep their connections and send one request after the other. Meanwhile models of the same labels are
put into the folder, in turns by the rename of a whole folder and file by file in any order, and one of them
is damaged first.

- An answer is wrong if its numbers are not those of the version in its header, if that version was not yet
  in the folder when the answer came, or if an older one answers again after a newer one.
- A request is lost if it has no answer. Only a refused connection is tried again, and counted.

Run in the root of the project: ``python -m benchmarks.service.reloads``.
"""

import argparse
import http.client
import json
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from benchmarks.service.peers import TUNELINE, end, free_port, wait_for_health
from benchmarks.service.rows import body, read_rows
from benchmarks.service.versions import ModelVersion, write_versions
from tuneline.core.runtime.files import replace_directory
from tuneline.onnx.usage import EXPORT_RECORD

RELOADS = 20
ROWS = 50
TOLERANCE = 2e-5
"""Largest difference of a score: batches round its last digits in other ways."""
MEMORY_AT = {"start": 0.25, "middle": 0.6, "end": 0.999}
"""Shares of the requests after which the memory is read."""
DAMAGED = 7
"""Number of the version that is damaged at first."""


@dataclass
class Outcomes:
    """What the clients have seen.

    Attributes:
        answered: Requests with an answer.
        refused: Connections that were refused, and tried again.
        problems: Wrong and lost requests.
        by_version: Answers of each version.
        newest: Number of the newest version that has answered.
        published: Number of the newest version that is, or may be, in the folder.
    """

    answered: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)
    by_version: Counter[int] = field(default_factory=Counter)
    newest: int = 0
    published: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Clients:
    """Clients that share a number of requests.

    Attributes:
        port: The port of the server.
        rows: What is asked.
        versions: All versions, in the order in which they come.
        requests: Number of all requests.
        outcomes: What they see.
    """

    port: int
    rows: Sequence[tuple[str, ...]]
    versions: Sequence[ModelVersion]
    requests: int
    outcomes: Outcomes

    def ask(self, seed: int) -> None:
        """Send requests over one connection until all clients together have sent enough."""
        draw = random.Random(seed)  # noqa: S311
        numbers = {version.name: number for number, version in enumerate(self.versions)}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while self.outcomes.answered + len(self.outcomes.problems) < self.requests:
            chosen = draw.sample(range(len(self.rows)), draw.choice((1, 1, 1, 1, 3)))
            content = json.dumps({"inputs": [body(self.rows[row])["inputs"] for row in chosen]})
            content = content if len(chosen) > 1 else json.dumps(body(self.rows[chosen[0]]))
            with self.outcomes.lock:
                oldest = self.outcomes.newest
            try:
                connection.request("POST", "/predict", content, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
            except ConnectionRefusedError:
                connection.close()
                with self.outcomes.lock:
                    self.outcomes.refused += 1
                time.sleep(0.05)
                continue
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                with self.outcomes.lock:
                    self.outcomes.problems.append(f"lost: {type(error).__name__}: {error}")
                continue
            version = numbers.get(response.headers.get("tuneline-version", ""), -1)
            problem = self._problem(response.status, answer, chosen, version, oldest)
            with self.outcomes.lock:
                self.outcomes.by_version[version] += 1
                if problem is None:
                    self.outcomes.answered += 1
                    self.outcomes.newest = max(self.outcomes.newest, version)
                else:
                    self.outcomes.problems.append(problem)

    def _problem(
        self, status: int, answer: bytes, chosen: Sequence[int], version: int, oldest: int
    ) -> str | None:
        """Return why an answer is wrong; ``None`` if it is right."""
        if status != 200:
            return f"status {status}: {answer[:200]!r}"
        if not oldest <= version <= self.outcomes.published:
            return f"version {version}, while {oldest} to {self.outcomes.published} could answer"
        found = json.loads(answer)
        if len(chosen) == 1:
            found = [found]
        for items, row in zip(found, chosen, strict=True):
            scores = sorted((item["score"] for item in items), reverse=True)
            expected = np.sort(self.versions[version].scores[row])[::-1]
            if np.abs(np.array(scores) - expected).max() > TOLERANCE:
                return f"version {version}, row {row}: {scores} instead of {expected.tolist()}"
        return None


class WatchedServer:
    """``tuneline serve`` on one port."""

    def __init__(self, folder: Path, port: int, log: Path) -> None:
        command = [TUNELINE, "serve", "--model", str(folder), "--port", str(port)]
        with log.open("ab") as output:
            self.process = psutil.Popen(command, stdout=output, stderr=output)
        self._log = log
        wait_for_health(self.process, port, log)

    def look(self) -> None:
        """Let it look at the folder at once."""
        self.process.send_signal(signal.SIGHUP)

    def count(self, words: str) -> int:
        """Return how many lines of its log have some words."""
        return self._log.read_text(encoding="utf-8", errors="replace").count(words)


def put(version: ModelVersion, folder: Path, number: int) -> None:
    """Put a version into the folder: by one rename, or file by file in an order that changes."""
    if number % 2:
        with replace_directory(folder) as new:
            shutil.copytree(version.folder, new, dirs_exist_ok=True)
        return
    files = sorted(version.folder.iterdir())
    random.Random(number).shuffle(files)  # noqa: S311
    for file in files:
        partial = folder / f".{file.name}"
        shutil.copyfile(file, partial)
        partial.replace(folder / file.name)
        time.sleep(0.1)


def damage(folder: Path, version: ModelVersion) -> None:
    """Put a version into the folder whose model is cut."""
    with replace_directory(folder) as new:
        shutil.copytree(version.folder, new, dirs_exist_ok=True)
        record = json.loads((new / EXPORT_RECORD).read_text(encoding="utf-8"))
        file = new / record["models"]["fp32"]["file"]
        file.write_bytes(file.read_bytes()[:-1000])


def wait_until(outcomes: Outcomes, requests: float) -> None:
    """Wait until so many requests are over."""
    while outcomes.answered + len(outcomes.problems) < requests:
        time.sleep(0.02)


def replace_all(
    clients: Clients, server: WatchedServer, folder: Path, asked: Sequence[threading.Thread]
) -> None:
    """Replace the model while clients ask; print what happens."""
    outcomes = clients.outcomes
    steps = [(share, f"memory at the {name}", 0) for name, share in MEMORY_AT.items()]
    steps += [((number - 0.5) / RELOADS * 0.99, "reload", number) for number in range(1, RELOADS + 1)]
    for share, step, number in sorted(steps):
        wait_until(outcomes, share * clients.requests)
        if step == "reload":
            if number == DAMAGED:
                damage(folder, clients.versions[number])
                server.look()
                time.sleep(1)
                print(f"{share:.0%}: damaged: {server.count(' answers on: ')} refused", flush=True)
            outcomes.published = number
            put(clients.versions[number], folder, number)
            server.look()
        else:
            print(f"{share:.0%}: {step}: {server.process.memory_info().rss / 2**20:.1f} MB", flush=True)
    for thread in asked:
        thread.join()


def main() -> None:
    """Ask, replace and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("models/onnx"))
    parser.add_argument("--rows", type=Path, default=Path("data/raw/test.parquet"))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rows = read_rows(options.model, options.rows)[:ROWS]
        versions = write_versions(options.model, Path(temporary) / "versions", rows, RELOADS + 1)
        folder = Path(temporary) / "served"
        shutil.copytree(versions[0].folder, folder)

        port = free_port()
        log = Path(temporary) / "server.log"
        server = WatchedServer(folder, port, log)
        clients = Clients(port, rows, versions, options.requests, Outcomes())
        started = time.perf_counter()
        threads = []
        for seed in range(options.connections):
            threads.append(threading.Thread(target=clients.ask, args=(seed,)))
            threads[-1].start()
        try:
            replace_all(clients, server, folder, threads)
        finally:
            end(server.process)
        print_outcomes(clients.outcomes, time.perf_counter() - started, log)


def print_outcomes(outcomes: Outcomes, seconds: float, log: Path) -> None:
    """Print the counts, and the problems."""
    wrong = [problem for problem in outcomes.problems if not problem.startswith("lost")]
    lost = len(outcomes.problems) - len(wrong)
    print(f"{outcomes.answered:,} answers in {seconds:.0f} s by {len(outcomes.by_version)} versions")
    print(f"{lost} lost, {len(wrong)} wrong, {outcomes.refused} connections refused and tried again")
    for problem, count in Counter(outcomes.problems).most_common(20):
        print(f"  {count} x {problem}")
    print(log.read_text(encoding="utf-8", errors="replace")[-6000:])


if __name__ == "__main__":
    main()
