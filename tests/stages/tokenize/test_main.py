import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from stages import tokenize
from tests.checkpoints import write_checkpoint
from tests.conftest import ROOT
from tests.params import change_params, write_params
from tests.runaway import TEXT as RUNAWAY
from tests.runaway import make_runaway
from tests.stages.tokenize.raw_splits import sentences, write_raw, write_splits
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.core.stage.provenance import BaseSource, PretrainedSource
from tuneline.core.stage.records import write_record
from tuneline.model.tasks import Regression
from tuneline.model.tasks.columns import read_task

PARAMS = {
    "tokenize": {"vocab_size": 300, "max_length": 24},
    "model": {"config": {"model_type": "bert", "max_position_embeddings": 32}},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with raw splits and parameters, and nothing else."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, **PARAMS)
    write_splits(tmp_path / "data/raw")
    write_record(tmp_path / "models/base/source.json", BaseSource(checkpoint=None, tokenizer=None))
    return tmp_path


def use_checkpoint(project, folder, max_length):
    """Write what the stage ``base`` writes for a checkpoint."""
    shutil.copytree(folder, project / "models/base/tokenizer")
    source = PretrainedSource(name="someone/bert", commit="c" * 40, license=None, sha256={})
    write_record(
        project / "models/base/source.json",
        BaseSource(checkpoint=source, tokenizer=source),
    )
    model = {"model.checkpoint": "someone/bert", "model.config": None}
    change_params(project, {**model, "tokenize.max_length": max_length})


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_stage_writes_splits_tokenizer_and_metrics(project):
    measurements = tokenize.main()
    assert sorted(contents(project / "data/tokenized")) == [
        "test.parquet",
        "tokenizer/tokenizer.json",
        "tokenizer/tokenizer_config.json",
        "train.parquet",
        "validation.parquet",
    ]
    assert measurements["rows_per_second"] > 0
    metrics = json.loads((project / "metrics/tokenize.json").read_text())
    assert metrics["rows"] == 180
    assert metrics["max_tokens"] == 24
    assert 0 < metrics["truncation_rate"] < 1


def test_tokenized_columns_are_those_of_the_contract(project):
    tokenize.main()
    for split in SPLITS:
        schema = pq.read_schema(project / f"data/tokenized/{split}.parquet")
        assert schema.names == ["input_ids", "attention_mask", "token_type_ids", "labels"]
        assert schema.types == [pa.list_(pa.int32()), pa.list_(pa.int8()), pa.list_(pa.int8()), pa.int64()]
        assert read_task(pq.read_schema(project / f"data/tokenized/{split}.parquet")).names == ("no", "yes")


def test_tokenized_rows_equal_those_of_transformers_in_order(project):
    tokenize.main()
    tokenizer = AutoTokenizer.from_pretrained("data/tokenized/tokenizer")
    assert tokenizer.model_max_length == 24
    for split in SPLITS:
        raw, tokenized = (
            pq.read_table(f"data/{folder}/{split}.parquet").to_pydict() for folder in ("raw", "tokenized")
        )
        expected = tokenizer(raw["subject"], raw["body"], truncation=True, max_length=24)
        assert tokenized == {**expected, "labels": raw["labels"]}


def test_row_that_the_tokenizer_cannot_encode_is_named(project, tmp_path_factory):
    folder = write_checkpoint(tmp_path_factory.mktemp("base") / "checkpoint")
    make_runaway(folder / "tokenizer.json")
    use_checkpoint(project, folder, max_length=24)
    texts = [sentences(60, seed=column) for column in range(2)]
    texts[1][41] = RUNAWAY
    write_raw(project / "data/raw/validation.parquet", texts)
    with pytest.raises(
        DataError,
        match=(
            r"^data/raw/validation.parquet, row 41: the tokenizer .*tokenizer.json cannot encode this text"
            r" of 60"
        ),
    ):
        tokenize.main()
    assert not (project / "data/tokenized").exists()


def test_single_texts_have_token_type_zero_only(project):
    change_params(project, {"data.text_columns": ["body"]})
    tokenize.main()
    tokenized = pq.read_table("data/tokenized/test.parquet").to_pydict()
    assert {token_type for row in tokenized["token_type_ids"] for token_type in row} == {0}


def test_architecture_without_token_types_gets_no_token_type_ids(project):
    change_params(project, {"model.config.model_type": "distilbert"})
    tokenize.main()
    assert pq.read_schema("data/tokenized/train.parquet").names == ["input_ids", "attention_mask", "labels"]
    assert AutoTokenizer.from_pretrained("data/tokenized/tokenizer").model_input_names == [
        "input_ids",
        "attention_mask",
    ]


def test_stage_is_deterministic_and_does_not_import_torch_or_record_paths(project):
    tokenize.main()
    here = contents(project / "data/tokenized")
    run = (
        "import runpy, sys\ntry: runpy.run_module('stages.tokenize', run_name='__main__')\nfinally: assert"
        " 'torch' not in sys.modules"
    )
    environment = {
        "PYTHONPATH": str(ROOT),
        "PATH": "/usr/bin:/bin",
        "HF_HUB_OFFLINE": "1",
        "RAYON_NUM_THREADS": "3",
    }
    subprocess.run([sys.executable, "-c", run], cwd=project, env=environment, check=True)
    assert contents(project / "data/tokenized") == here
    assert json.loads((project / "reports/timing/tokenize.json").read_text())["rows_per_second"] > 0
    assert not [
        name
        for name, content in here.items()
        if str(project).encode() in content or str(ROOT).encode() in content
    ]


def test_tokenizer_of_a_checkpoint_is_used(project, tmp_path_factory):
    folder = write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "bert")
    use_checkpoint(project, folder, max_length=24)
    tokenize.main()
    own = json.loads((folder / "tokenizer.json").read_text())
    assert json.loads((project / "data/tokenized/tokenizer/tokenizer.json").read_text()) == own


def test_wordpiece_is_trained_on_the_train_split_only(project):
    write_raw(project / "data/raw/test.parquet", [["parcel Ωmega"], ["parcel"]])
    tokenize.main()
    assert json.loads((project / "metrics/tokenize.json").read_text())["unknown_rate"] > 0
    assert not [
        piece
        for piece in AutoTokenizer.from_pretrained("data/tokenized/tokenizer").get_vocab()
        if "ω" in piece
    ]


def test_regression_targets_stay_float32(project):
    for split in SPLITS:
        write_raw(
            project / f"data/raw/{split}.parquet", [["parcel"], ["missing"]], labels=[2.5], names=Regression()
        )
    tokenize.main()
    table = pq.read_table("data/tokenized/test.parquet")
    assert (table.schema.field("labels").type, table["labels"].to_pylist()) == (pa.float32(), [2.5])


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (33, r"tokenize\.max_length: 33 is more than the 32 tokens"),
        (4, r"tokenize\.max_length: 4 is too short"),
    ],
)
def test_unsuitable_max_length_is_refused(project, length, message):
    change_params(project, {"tokenize.max_length": length})
    with pytest.raises(ParamsError, match=message):
        tokenize.main()
    assert not (project / "data/tokenized").exists()


def test_failed_run_keeps_the_previous_outputs(project):
    tokenize.main()
    before = contents(project / "data/tokenized")
    broken = (project / "data/raw/test.parquet").read_bytes()[:-2000]
    (project / "data/raw/test.parquet").write_bytes(broken)
    with pytest.raises(DataError, match=r"test\.parquet"):
        tokenize.main()
    assert contents(project / "data/tokenized") == before
