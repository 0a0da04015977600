import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.export import provenance
from stages.export.provenance import chosen, code_hash, data_record, declared, library_versions, parameters_record
from tuneline.errors import StageError


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages/download").mkdir(parents=True)
    (tmp_path / "tuneline").mkdir()
    (tmp_path / "tuneline/paths.py").write_text("a = 1\n")
    (tmp_path / "stages/download/files.py").write_text("b = 2\n")
    return [provenance.Path("tuneline/paths.py"), provenance.Path("stages/download")]


def test_the_hash_of_the_code_changes_with_any_byte_in_it(code):
    before = code_hash(code)
    (code[1] / "files.py").write_text("b = 3\n")
    assert code_hash(code) != before


def test_the_hash_of_the_code_changes_with_a_file_s_name(code):
    before = code_hash(code)
    (code[1] / "files.py").rename(code[1] / "other.py")
    assert code_hash(code) != before


def test_the_hash_of_the_code_is_that_of_python_files_in_any_order(code):
    before = code_hash(code)
    (code[1] / "__pycache__").mkdir()
    (code[1] / "__pycache__/files.cpython-311.pyc").write_bytes(b"x")
    assert code_hash(code[::-1]) == before


def test_code_that_is_listed_and_missing_is_named(code):
    with pytest.raises(StageError, match=r"tuneline/errors\.py"):
        code_hash([*code, provenance.Path("tuneline/errors.py")])


def test_code_and_parameters_are_those_that_the_graph_lists(tmp_path):
    graph = tmp_path / "dvc.yaml"
    graph.write_text("stages: {export: {cmd: x, deps: [data/raw, stages/train, tuneline/paths.py], params: [seed, train.epochs]}}")
    code, keys = declared(graph, "export")
    assert [path.as_posix() for path in code] == ["stages/train", "tuneline/paths.py"]
    assert keys == ["seed", "train.epochs"]


def test_parameters_are_recorded_by_dotted_key_whatever_their_order():
    values = {"seed": 1, "train": {"epochs": 3, "schedule": "linear"}}
    record = parameters_record(chosen(values, ["train.epochs", "seed"]))
    assert record["values"] == {"seed": 1, "train.epochs": 3}
    assert record == parameters_record(chosen(values, ["seed", "train.epochs"]))
    assert record["sha256"] != parameters_record(chosen({**values, "seed": 2}, ["seed", "train.epochs"]))["sha256"]


@pytest.mark.parametrize("source", [None, {"source": "hub", "revision": "abc"}])
def test_data_is_recorded_with_its_source_and_a_hash_for_each_split(tmp_path, source):
    for position, split in enumerate(("train", "test")):
        pq.write_table(pa.table({"a": [position]}), tmp_path / f"{split}.parquet")
    if source:
        (tmp_path / "source.json").write_text(json.dumps(source))
    record = data_record(tmp_path, ("train", "test"))
    assert record["source"] == source
    assert len({*record["sha256"].values()}) == 2


def test_versions_do_not_tell_which_build_of_torch_it_was():
    assert library_versions()["torch"].count("+") == 0
    assert all(version[0].isdigit() for version in library_versions().values())
