"""Load by ``wrk`` (Debian: ``apt-get install wrk``), which needs little of the processor that it shares."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

LUA = """
local requests, next_request = {}, 0
function init(arguments)
  for line in io.lines(arguments[1]) do
    local headers = { ["Content-Type"] = "application/json" }
    requests[#requests + 1] = wrk.format("POST", "/predict", headers, line)
  end
end
function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end
function done(summary, latency, _)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '\\n{"requests": %d, "microseconds": %d, "p50": %f, "p95": %f, "p99": %f, "refused": %d, "lost": %d}\\n',
    summary.requests, summary.duration, latency:percentile(50) / 1000, latency:percentile(95) / 1000,
    latency:percentile(99) / 1000, errors.status, lost))
end
"""
"""The script of ``wrk``: it sends the bodies of a file in turns, and prints the measurements as JSON."""


@dataclass(frozen=True)
class LoadResult:
    """The measurements of one load.

    Attributes:
        requests: Answers of any status.
        p50: Latency in ms, like the other two.
        refused: Answers with a status that is not 2xx or 3xx.
        lost: Requests without an answer.
    """

    requests: int
    requests_per_second: float
    p50: float
    p95: float
    p99: float
    refused: int
    lost: int


def send_load(port: int, bodies: Path, connections: int, seconds: float) -> LoadResult:
    """Send the bodies over so many connections, each of which waits for its answer."""
    script = bodies.with_name("load.lua")
    script.write_text(LUA, encoding="utf-8")
    command = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds:.0f}s"]
    command += ["--timeout", "10s", "--script", str(script), f"http://127.0.0.1:{port}", "--", str(bodies)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.strip().splitlines()[-1])
    seconds_taken = measured.pop("microseconds") / 1e6
    return LoadResult(requests_per_second=measured["requests"] / seconds_taken, **measured)
