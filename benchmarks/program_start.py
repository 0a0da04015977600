"""How long a program and the command take to start: processor time, for one checkout or several in turn.

Run: ``python -m benchmarks.program_start MODEL [CHECKOUT ...]``, with a folder of exported models that read a
pair of texts; without a checkout, this one.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS = 11
PREDICTION = """
import sys
from pathlib import Path
from tuneline import TextClassifier
model = TextClassifier.load(Path(sys.argv[1]), threads=1)
model.predict_one(("parcel missing", "it never came"))
"""


def processor_seconds(arguments: list[str], checkout: Path) -> float:
    """Return the processor time of a Python process that imports the code of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # -P: not the code of the current folder
    subprocess.run([sys.executable, "-P", *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(model: str, checkouts: list[str]) -> None:
    """Print the medians, in milliseconds."""
    starts = {
        "import tuneline": ["-c", "import tuneline"],
        "tuneline --help": ["-m", "tuneline.cli", "--help"],
        "first prediction": ["-c", PREDICTION, str(Path(model).resolve())],
    }
    paths = [Path(checkout) for checkout in checkouts] or [ROOT]
    for name, arguments in starts.items():
        seconds: dict[Path, list[float]] = {path: [] for path in paths}
        for number in range(ROUNDS + 1):
            for path in paths:
                value = processor_seconds(arguments, path)
                if number:  # the first one reads the files of the disk
                    seconds[path].append(value)
        for path in paths:
            print(f"{name:18} {path!s:30} {1000 * statistics.median(seconds[path]):6.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
