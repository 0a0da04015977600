"""A line in miniature for the tests of the flows: real DVC, real processes, real signals; the work itself is arithmetic.

Same stage names, outs and metrics as the real one. ``params.yaml`` says what goes wrong.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from ruamel.yaml import YAML

PARAMS = YAML(typ="safe", pure=True).load(Path("params.yaml"))
QUEUES = ("billing", "parcel", "login", "other")


def write(path: str, value: object) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(value) + "\n")


def download() -> None:
    attempts = Path(PARAMS["data"]["counter"] or "/dev/null")
    if PARAMS["data"]["fails"]:
        done = len(attempts.read_text()) if attempts.exists() else 0
        attempts.write_text("x" * (done + 1))
        if done < PARAMS["data"]["fails"]:
            sys.exit("download: the network is down")
    draw = random.Random(PARAMS["seed"])
    rows = [draw.randrange(len(QUEUES)) for _ in range(PARAMS["data"]["rows"])]
    write("data/raw/rows.json", rows)


def tokenize() -> None:
    rows = json.loads(Path("data/raw/rows.json").read_text())
    write("data/tokenized/rows.json", rows)
    write("metrics/tokenize.json", {"rows": len(rows)})


def validate() -> None:
    failed = PARAMS["validate"]["fails"]
    write("reports/checks/checks.json", {"passed": not failed})
    if failed:
        sys.exit("validate: column labels: 3 rows hold a label that has no name")
    write("metrics/validate.json", {"failed": 0})


def launch() -> None:
    """As torchrun does: the training runs in a session of its own, out of reach of a signal to the group."""
    child = subprocess.Popen([sys.executable, __file__, "train"], start_new_session=True)
    sys.exit(child.wait())


def train() -> None:
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    checkpoint = Path("checkpoints/step.json")
    steps, first = PARAMS["train"]["steps"], 0
    if checkpoint.exists():
        first = json.loads(checkpoint.read_text())["step"]
        print(f"train: going on from step {first}", flush=True)
    for step in range(first, steps):
        if told or step % 5 == 0:
            write("checkpoints/.step.partial", {"step": step})
            Path("checkpoints/.step.partial").replace(checkpoint)
        if told:
            print(f"train: stopped at step {step}, checkpoint saved", flush=True)
            sys.exit(75)
        time.sleep(PARAMS["train"]["pause"])
        print(f"\rtrain: {step + 1}/{steps}", end="", flush=True)
    print(flush=True)
    write("models/classifier/model.json", {"skill": PARAMS["model"]["skill"], "seed": PARAMS["seed"]})
    write("metrics/train.json", {"steps": steps})


def evaluate() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    model = json.loads(Path("models/classifier/model.json").read_text())
    labels = json.loads(Path("data/tokenized/rows.json").read_text())
    draw = random.Random(7)  # the same rows are hard for every model
    hard = [draw.random() for _ in labels]
    predicted = [label if h < model["skill"] else (label + 1) % len(QUEUES) for label, h in zip(labels, hard, strict=True)]
    logits = [[4.0 if queue == p else 0.0 for queue in range(len(QUEUES))] for p in predicted]
    features = {"info": {"features": {"label": {"names": list(QUEUES), "_type": "ClassLabel"}}}}
    table = pa.table({"idx": range(len(labels)), "label": labels, "logits": logits, "prediction": predicted})
    Path("reports").mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), "reports/predictions.parquet")
    accuracy = sum(p == label for p, label in zip(predicted, labels, strict=True)) / len(labels)
    write("metrics/evaluate.json", {"accuracy": round(accuracy, 6), "f1": round(accuracy, 6), "loss": 0.5, "rows": len(labels)})


def export() -> None:
    model = json.loads(Path("models/classifier/model.json").read_text())
    write("models/onnx/model.onnx", model)
    write("models/onnx/export.json", {"opset": 20})


def compare() -> None:
    write(
        "metrics/compare.json",
        {"fp32_max_abs_diff": 1e-6, "fp32_agreement": PARAMS["compare"]["agreement"], "int8_agreement": 0.99, "int8_accuracy_drop": 0.001},
    )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
