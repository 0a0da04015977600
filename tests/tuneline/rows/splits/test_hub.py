"""Data sets of the hub, through the real client and a hub on loopback: pinned, named, and refused with a
reason."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.hub import LoopbackHub
from tests.params import complete
from tuneline.model.tasks import Multilabel
from tuneline.model.tasks.columns import read_task

ASKED = {"source": "hub", "text_columns": ["text"], "label_column": "label"}
ONE_SPLIT = {"validation": 0.2, "test": 0.2, "stratify": False}
CARD = """---
configs:
- config_name: first
  data_files: first/*.parquet
- config_name: second
  data_files: second/*.parquet
---
"""

# Runs many cases in one process, as the stage does: importing the datasets library takes longer than any of
# them.
RUN_CASES = """
import json, sys
from pathlib import Path
from stages.download import download, open_source
from tuneline.core.runtime.errors import StageError
from tuneline.core.params.loading import parse_params
said = {}
for name, values in json.loads(Path("cases.json").read_text()).items():
    try:
        params = parse_params(values)
        folder = Path("out", name)
        folder.mkdir(parents=True)
        source = open_source(params.data, params.seed)
        said[name] = download(params, source, folder, Path("groups"))
    except StageError as error:
        said[name] = str(error)
Path("said.json").write_text(json.dumps(said))
"""


def class_labels(labels: list[int], names: list[str] | None = None) -> bytes:
    """A Parquet file as the hub has them: the datasets library's class names in its schema."""
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": names or ["bad", "good"], "_type": "ClassLabel"},
    }
    table = pa.table(
        {"text": [f"text {row}" for row in range(len(labels))], "label": pa.array(labels, pa.int64())}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), sink
    )
    return sink.getvalue().to_pybytes()


def sets_of_class_labels(labels: list[list[int]], names: list[str]) -> bytes:
    """A Parquet file with a list of class labels in each row, as go_emotions has them on the hub."""
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
    features = {"text": {"dtype": "string", "_type": "Value"}, "label": feature}
    table = pa.table(
        {
            "text": [f"text {row}" for row in range(len(labels))],
            "label": pa.array(labels, pa.list_(pa.int64())),
        }
    )
    sink = pa.BufferOutputStream()
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue().to_pybytes()


LABELLED = class_labels([1, 0, 1, 0, 1, 0, 1, 0, 1, 0])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackHub]:
    """A hub with data sets of every kind that these tests want."""
    with LoopbackHub(tmp_path_factory.mktemp("hub")) as hub:
        three = {f"data/{split}-00000-of-00001.parquet": LABELLED for split in ("train", "validation")}
        unlabelled = class_labels([-1, -1, -1])
        hub.add(
            "datasets",
            "someone/reviews",
            {**three, "data/test-00000-of-00001.parquet": unlabelled},
            branches=("main", "v1"),
        )
        hub.add(
            "datasets",
            "someone/two",
            {"README.md": CARD, "first/train.parquet": LABELLED, "second/train.parquet": LABELLED},
        )
        emotions = sets_of_class_labels([[2], [], [2, 0], [1]] * 3, ["joy", "anger", "fear"])
        hub.add("datasets", "someone/emotions", {"train.parquet": emotions})
        hub.add("datasets", "someone/gaps", {"train.parquet": class_labels([1, 0, -1, 0, 1, 0, 1, 0, 1, 0])})
        hub.add(
            "datasets",
            "someone/lines",
            {"train.jsonl": "".join(f'{{"text": "t{row}", "label": {row % 2}}}\n' for row in range(10))},
        )
        hub.add("datasets", "someone/script", {"script.py": "raise SystemExit('code of the repository ran')"})
        hub.add("datasets", "someone/broken", {"train.parquet": b"PAR1 and nothing of use behind it"})
        yield hub


REPORT_VALIDATION = {"evaluate": {"split": "validation"}, "train": {"keep": "last"}}
CASES: dict[str, dict[str, Any]] = {
    # --- what works
    "pinned": {"data": {"path": "someone/reviews", "revision": "v1"}, **REPORT_VALIDATION},
    "divided": {"data": {"path": "someone/two", "name": "first", "split": {"validation": 0.3, "test": 0.3}}},
    "several labels": {
        "data": {
            "path": "someone/emotions",
            "split": ONE_SPLIT,
            "task": "multilabel",
            "label_sets": {"layout": "lists"},
        }
    },
    # --- what does not
    "no such data set": {"data": {"path": "someone/nobody"}},
    "no such revision": {"data": {"path": "someone/reviews", "revision": "v2"}},
    "no such configuration": {"data": {"path": "someone/two", "name": "third"}},
    "no such split": {"data": {"path": "someone/lines"}},
    "no such column": {"data": {"path": "someone/reviews", "text_columns": ["texts"]}, **REPORT_VALIDATION},
    "an unlabelled split to report on": {"data": {"path": "someone/reviews"}},
    "a row without label": {"data": {"path": "someone/gaps", "split": ONE_SPLIT}},
    "a loading script": {"data": {"path": "someone/script"}},
    "a broken file": {"data": {"path": "someone/broken"}},
}
SAYS = {
    "no such data set": "the hub gives no data set 'someone/nobody'",
    "no such revision": "'someone/reviews' (data.revision: v2): RevisionNotFoundError.",
    "no such configuration": (
        "someone/two third cannot be read: BuilderConfig 'third' not found. Available: ['first', 'second']"
    ),
    "no such split": (
        "data.splits: someone/lines has no split 'validation'.\n  It has 'train'. Divide one with data.split."
    ),
    "no such column": ("someone/reviews, split train: no column 'texts'.\n  The nearest is 'text'."),
    "an unlabelled split to report on": (
        "someone/reviews, split test has no labels (all are -1 or missing), but the test "
    ),
    "a row without label": "someone/gaps, split train, row 3, column 'label': no label.",
    "a loading script": "someone/script cannot be read: Dataset scripts are no longer supported",
    "a broken file": "someone/broken cannot be read: ",
}


def run_cases(folder: Path, cases: dict[str, dict[str, Any]], env: dict[str, str]) -> dict[str, Any]:
    """Runs the stage on each case in one process, and gives back the rows it wrote or the error it gave."""
    folder.mkdir(exist_ok=True)
    values = {name: complete({**case, "data": {**ASKED, **case["data"]}}) for name, case in cases.items()}
    (folder / "cases.json").write_text(json.dumps(values))
    env = {**env, "PYTHONPATH": str(ROOT), "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", RUN_CASES], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads((folder / "said.json").read_text()))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cases run, and the client's cache lies."""
    return tmp_path_factory.mktemp("workplace")


@pytest.fixture(scope="module")
def said(hub: LoopbackHub, workplace: Path) -> dict[str, Any]:
    """What the stage said in each case."""
    return run_cases(workplace / "online", CASES, hub.env(workplace / "home"))


@pytest.fixture
def out(said: dict[str, Any], workplace: Path) -> Path:
    """Folder of what the stage wrote, by case."""
    return workplace / "online/out"


@pytest.mark.parametrize("case", SAYS)
def test_what_cannot_be_had_is_refused_with_its_reason(case: str, said: dict[str, Any]):
    assert SAYS[case] in str(said[case])


def test_a_branch_is_recorded_as_the_commit_it_stood_for(said: dict[str, Any], out: Path, hub: LoopbackHub):
    source = json.loads((out / "pinned/source.json").read_text())
    commit = hub.repositories["datasets", "someone/reviews"].commit
    assert {key: source.get(key) for key in ("source", "path", "name", "revision", "commit")} == {
        "source": "hub",
        "path": "someone/reviews",
        "name": None,
        "revision": "v1",
        "commit": commit,
    }


def test_class_names_of_the_data_set_are_kept(out: Path):
    table = pq.read_table(out / "pinned/train.parquet")
    assert json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["labels"] == {
        "names": ["bad", "good"],
        "_type": "ClassLabel",
    }
    assert table["labels"].to_pylist() == [1, 0] * 5


def test_an_unlabelled_split_that_is_not_reported_has_minus_one_in_every_row(out: Path):
    assert pq.read_table(out / "pinned/test.parquet")["labels"].to_pylist() == [-1, -1, -1]


def test_data_set_with_one_split_is_divided(said: dict[str, Any], out: Path):
    sizes = {"train_rows": 4, "validation_rows": 3, "test_rows": 3, "bad_rows": 0}
    assert said["divided"] == pytest.approx(sizes, abs=2)
    rows = [
        row
        for split in ("train", "validation", "test")
        for row in pq.read_table(out / f"divided/{split}.parquet")["idx"].to_pylist()
    ]
    assert sorted(rows) == list(range(10))


def test_lists_of_class_labels_are_sets_with_the_names_of_the_data_set(out: Path):
    tables = [pq.read_table(path) for path in sorted((out / "several labels").glob("*.parquet"))]
    assert {read_task(table.schema) for table in tables} == {Multilabel(("joy", "anger", "fear"))}
    rows = pa.concat_tables(tables).sort_by("idx")
    assert rows["labels"].to_pylist()[:7] == [[2], [], [0, 2], [1], [2], [], [0, 2]]


def test_without_network_a_pinned_data_set_comes_from_the_cache_and_no_other_version_of_it(
    said: dict[str, Any], hub: LoopbackHub, workplace: Path
):
    """The datasets library takes the latest version it finds in its cache, whatever revision is asked for."""
    commit = hub.repositories["datasets", "someone/reviews"].commit
    cases = {
        "the commit": {"data": {"path": "someone/reviews", "revision": commit}, **REPORT_VALIDATION},
        "another commit": {"data": {"path": "someone/reviews", "revision": "0" * 40}, **REPORT_VALIDATION},
        "a branch": {"data": {"path": "someone/reviews", "revision": "v1"}, **REPORT_VALIDATION},
    }
    env = {**hub.env(workplace / "home"), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    offline = run_cases(workplace / "offline", cases, env)
    assert offline["the commit"]["train_rows"] == 10
    assert (
        f"data.revision: commit {'0' * 40} of someone/reviews is not in the cache"
        in offline["another commit"]
    )
    assert "data.path: the hub cannot be asked for someone/reviews: " in offline["a branch"]
    assert "set data.revision to the commit of a data set that was fetched before" in offline["a branch"]
