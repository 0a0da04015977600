"""A small pipeline for the tests of the flows: real DVC, real processes, real signals, a real ONNX model, but
no training.

Outs and metrics are those of the real pipeline, but two stages make them, because each costs seconds in each
run: ``data`` what comes before the training, ``train`` the rest. A ticket is one word among others; word
``w17`` belongs to queue 17 % 4. A model of skill 0.8 knows 80% of the words. ``params.yaml`` says what goes
wrong.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

from ruamel.yaml import YAML

from tuneline.core.paths import CHECKPOINTS

PARAMS = YAML(typ="safe", pure=True).load(Path("params.yaml"))
QUEUES = ["billing", "parcel", "login", "other"]
WORDS = 400
SPLITS = ("train", "validation", "test")


def write(path: str, value: object) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(value) + "\n")


def write_table(path: str, columns: dict, labels: list[str] = QUEUES) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    classes = {"names": labels, "_type": "ClassLabel"}
    features = {"huggingface": json.dumps({"info": {"features": {"label": classes, "labels": classes}}})}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns).replace_schema_metadata(features), path)


def read_table(path: str) -> dict:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pydict()


def known(word: int) -> int:
    """Return the queue that the model predicts for a word."""
    return word % 4 if random.Random(1000 + word).random() < PARAMS["model"]["skill"] else (word + 1) % 4


def data() -> None:
    download()
    tokenize()
    validate()


def download() -> None:
    if PARAMS["data"]["fails"]:
        attempts = Path(PARAMS["data"]["counter"])
        done = len(attempts.read_text()) if attempts.exists() else 0
        attempts.write_text("x" * (done + 1))
        if done < PARAMS["data"]["fails"]:
            sys.exit("download: the network is down")
    rows = PARAMS["data"]["rows"]
    for split in SPLITS:
        draw = random.Random(f"{PARAMS['seed']} {split}")
        words = [draw.randrange(WORDS) for _ in range(rows)]
        texts = [f"please help w{word}" for word in words]
        write_table(
            f"data/raw/{split}.parquet",
            {"text": texts, "labels": [word % 4 for word in words], "idx": list(range(rows))},
        )


def tokenize() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", "please", "help", *(f"w{word}" for word in range(WORDS))]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")  # noqa: S106
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    Path("data/tokenized/tokenizer").mkdir(parents=True)
    tokenizer.save("data/tokenized/tokenizer/tokenizer.json")
    for split in SPLITS:
        raw = read_table(f"data/raw/{split}.parquet")
        ids = [tokenizer.encode(text).ids for text in raw["text"]]
        masks = [[1] * len(row) for row in ids]
        write_table(
            f"data/tokenized/{split}.parquet",
            {"input_ids": ids, "attention_mask": masks, "labels": raw["labels"]},
        )
    write("metrics/tokenize.json", {"rows": len(ids)})


def validate() -> None:
    failed = PARAMS["validate"]["fails"]
    summary = {
        "passed": not failed,
        "errors": int(failed),
        "warnings": 0,
        "not_run": [],
        "checks": [],
    }
    write("reports/checks/checks.json", summary)
    if failed:
        print("validate: column labels: 3 rows hold a label that has no name", file=sys.stderr)
        sys.exit(78)
    raw = read_table("data/raw/train.parquet")
    lengths = [len(text) for text in raw["text"]]
    edges = sorted(set(lengths))[:-1]
    profile = {
        "rows": len(lengths),
        "labels": {"edges": [0.0, 1.0, 2.0], "counts": [raw["labels"].count(queue) for queue in range(4)]},
        "characters": {
            "edges": [float(edge) for edge in edges],
            "counts": [lengths.count(length) for length in sorted(set(lengths))],
        },
        "words": {"hashes": [], "known": 0.0},
    }
    write("reports/checks/profile.json", {"version": 1, "labels": QUEUES, "splits": {"train": profile}})
    promoted, ratio = Path("data/reference/profile.json"), {}
    if promoted.exists():
        before = json.loads(promoted.read_text())["splits"]["train"]["rows"]
        ratio = {"train_promoted_rows": round(len(lengths) / before, 6)}
    Path("reports/checks/passed").write_text("The data checks passed.\n")
    write("metrics/validate.json", {"errors": 0, **ratio})


def launch() -> None:
    """Start the training as torchrun does: in a session of its own, which a signal to the process group does
    not reach."""
    child = subprocess.Popen([sys.executable, __file__, "train"], start_new_session=True)
    code = child.wait()
    sys.exit(128 - code if code < 0 else code)  # as the stage reports signal N


def train() -> None:
    take_steps(PARAMS["train"]["steps"], PARAMS["train"]["pause"])
    words = [known(word) for word in range(WORDS)]
    write("metrics/train.json", {"steps": PARAMS["train"]["steps"]})
    evaluate(words)
    export(words)
    write(
        "metrics/compare.json",
        {"fp32_max_abs_diff": 0.0, "fp32_agreement": PARAMS["compare"]["agreement"], "fp32_published": 1},
    )


def take_steps(steps: int, pause: float) -> None:
    """Take the steps of a training that is not there, from its checkpoint on; when stopped, save one and
    exit."""
    stops = []
    signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
    key = zlib.crc32(json.dumps(PARAMS, sort_keys=True).encode())
    checkpoint, folders = Path("checkpoints/step.json"), CHECKPOINTS / f"toy-{key}"
    write(str(folders / "run.json"), {})
    first = 0
    fetched = sorted(folders.glob("step-*"))
    if fetched and not checkpoint.exists():
        checkpoint = fetched[-1] / "step.json"
    if checkpoint.exists():
        first = json.loads(checkpoint.read_text())["step"]
        print(f"train: resuming from step {first}", flush=True)
        checkpoint = Path("checkpoints/step.json")
    for step in range(first, steps):
        if stops or step % 5 == 0:
            write("checkpoints/.step.partial", {"step": step})
            Path("checkpoints/.step.partial").replace(checkpoint)
            save_folder(folders, step)
        if stops:
            print(f"train: stopped at step {step}, checkpoint saved", flush=True)
            sys.exit(75)
        time.sleep(pause)
        print(f"\rtrain: {step + 1}/{steps}", end="", flush=True)
    shutil.rmtree(folders)
    print(flush=True)


def save_folder(folders: Path, step: int) -> None:
    """Save a checkpoint as the real training does, in the form that is copied to other machines; keep the
    last two."""
    partial = folders / ".partial"
    write(str(partial / "step.json"), {"step": step})
    write(str(partial / "complete.json"), {})
    shutil.rmtree(folders / f"step-{step:08d}", ignore_errors=True)
    partial.rename(folders / f"step-{step:08d}")
    for older in sorted(folders.glob("step-*"))[:-2]:
        shutil.rmtree(older)


def evaluate(words: list[int]) -> None:
    predict(words, "validation", "reports/validation.parquet")
    accuracy, rows = predict(words, "test", "reports/predictions.parquet")
    write("metrics/evaluate.json", {"accuracy": accuracy, "f1": accuracy, "loss": 0.5, "rows": rows})


def predict(words: list[int], name: str, path: str) -> tuple[float, int]:
    """Write the predictions of a split; return their accuracy and number."""
    split = read_table(f"data/tokenized/{name}.parquet")
    predicted = [words[row[-1] - 4] for row in split["input_ids"]]
    logits = [[float(queue == p) for queue in range(4)] for p in predicted]
    rows = {
        "idx": list(range(len(predicted))),
        "label": split["labels"],
        "logits": logits,
        "prediction": predicted,
    }
    write_table(path, rows)
    right = sum(p == label for p, label in zip(predicted, split["labels"], strict=True))
    return round(right / len(predicted), 6), len(predicted)


def export(words: list[int]) -> None:
    import numpy as np

    table = np.zeros((WORDS + 4, 4), dtype=np.float32)
    table[np.arange(WORDS) + 4, words] = 1.0
    folder = Path("models/onnx")
    folder.mkdir(parents=True)
    write("models/onnx/tokenizer_config.json", {"pad_token": "[PAD]", "unk_token": "[UNK]"})
    shutil.copyfile("data/tokenized/tokenizer/tokenizer.json", folder / "tokenizer.json")
    save_bag_of_words(table, QUEUES, 16)


def save_bag_of_words(table: object, labels: list[str], max_length: int) -> None:
    """Save a model whose logits are the sum of its tokens' rows in a table, beside its tokenizer in
    ``models/onnx/``."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save_model

    from tuneline.core.stage.records import file_hash, write_record
    from tuneline.onnx.candidates import embed, tokenizer_record
    from tuneline.onnx.records import DataRecord, ExportRecord, ModelProvenance
    from tuneline.onnx.usage import FORMAT, ModelRecord

    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["rows", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        helper.make_node("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["real", "last"], ["mask"]),
        helper.make_node("Mul", ["vectors", "mask"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["logits"], keepdims=0),
    ]
    constants = [
        ("table", table),
        ("last", np.array([-1], dtype=np.int64)),
        ("middle", np.array([1], dtype=np.int64)),
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in constants]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", len(labels)])
    graph = helper.make_graph(nodes, "toy", ids, [logits], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    folder = Path("models/onnx")
    write(
        "models/onnx/config.json",
        {"id2label": dict(enumerate(labels)), "model_type": "toy", "pad_token_id": 0},
    )
    record = ExportRecord(
        format=FORMAT,
        task="classification",
        labels=labels,
        text_columns=["text"],
        max_length=max_length,
        pad_token_id=0,
        tokenizer=tokenizer_record(folder),
        architecture="toy",
        opset=20,
        inputs=["input_ids"],
        models={},
        provenance=ModelProvenance(data=DataRecord(source=None, sha256={}), stages={}),
    )
    embed(model, record)  # as the real stage does, because `tuneline predict` must read it
    save_model(model, folder / "model.onnx")
    saved = ModelRecord(file="model.onnx", bytes=0, sha256={"model.onnx": file_hash(folder / "model.onnx")})
    write_record(folder / "export.json", record.model_copy(update={"models": {"fp32": saved}}))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
