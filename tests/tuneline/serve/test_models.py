"""Where the model comes from, a folder or the registry of a repository, and how it is replaced."""

import json
import shutil
import subprocess
import threading

import pytest

from tests.dvc_files import init_dvc, store_folder
from tests.service import running_service
from tuneline.core.runtime.errors import StageError
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.serve.model_choice import RequiredRisk
from tuneline.serve.models import FolderSource, RegistrySource, ServedModel

PAIR = ["the parcel", "never came"]
PIPELINE = """artifacts: {onnx: {path: models/onnx, type: model}}
stages: {compare: {cmd: "true", outs: [models/onnx]}}
"""


def git(root, *arguments):
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path, pair_folder, text_folder):
    """A repository with two versions of other models, and the second one in production."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--initial-branch", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@b.c")
    init_dvc(root)
    (root / "dvc.yaml").write_text(PIPELINE)
    for number, folder in enumerate((pair_folder, text_folder), start=1):
        store_folder(root, "models/onnx", folder, root / ".dvc/cache")
        git(root, "add", ".")
        git(root, "commit", "--message", f"{number}")
        git(root, "tag", "--annotate", f"onnx@v0.{number}.0", "--message", "m")
    git(root, "tag", "--annotate", "onnx#production#1", "--message", "m")
    return root


def test_registry_follows_promotions_and_rollbacks(checkout):
    source = RegistrySource(str(checkout), None)
    promoted = source.state()
    assert source.load().version == "v0.2.0"
    assert source.load().text_columns == ("body",)
    git(checkout, "tag", "--annotate", "onnx#production#2", "--message", "m", "onnx@v0.1.0^{}")
    assert source.state() != promoted
    assert source.load().version == "v0.1.0"
    assert source.load().text_columns == ("subject", "body")


def test_model_that_cannot_promise_is_refused(pair_folder):
    source = FolderSource(pair_folder, None, RequiredRisk(0.0001, 0.95))
    with pytest.raises(StageError, match="answered rows without an error"):
        source.load()


@pytest.fixture
def folder(tmp_path, pair_folder):
    return shutil.copytree(pair_folder, tmp_path / "onnx")


def change_record(folder, change):
    """Rewrite ``export.json``."""
    record = json.loads((folder / EXPORT_RECORD).read_text())
    change(record)
    (folder / EXPORT_RECORD).write_text(json.dumps(record))


def make_less_sure(record):
    """Let the record have another temperature: another version, which predicts other probabilities."""
    record["models"]["fp32"]["decisions"] = {"temperature": 2.0}


def rename_labels(folder):
    """Let the models have other labels."""
    change_record(folder, lambda record: record.update(labels=["billing", "delivery", "other"]))


def test_requests_go_on_while_the_model_is_replaced(folder, pair_folder):
    """Each answer has the numbers of the version that it names."""
    seen = {}
    stop = threading.Event()

    def ask(service):
        while not stop.is_set():
            answer = service.post("/predict", {"inputs": PAIR})
            assert answer.status_code == 200
            seen.setdefault(answer.headers["tuneline-version"], set()).add(answer.json()[0]["score"])

    with running_service(folder) as service:
        threads = [threading.Thread(target=ask, args=(service,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        original = (folder / EXPORT_RECORD).read_text()
        for _ in range(3):
            change_record(folder, make_less_sure)
            service.wait_for(service.service.model.look())
            (folder / EXPORT_RECORD).write_text(original)
            service.wait_for(service.service.model.look())
        stop.set()
        for thread in threads:
            thread.join()
    assert len(seen) == 2
    (first, second) = ({round(score, 4) for score in scores} for scores in seen.values())
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.parametrize("damage", ["bytes", "numbers", "missing", "record", "columns", "labels"])
def test_damaged_model_is_refused_and_the_old_one_answers_on(folder, text_folder, caplog, damage):
    caplog.set_level("INFO", "tuneline.service")

    def other_numbers(record):
        record["models"]["fp32"]["probe_outputs"][0][0] += 3

    with running_service(folder) as service:
        before = service.post("/predict", {"inputs": PAIR})
        if damage == "bytes":
            (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes() + b"x")
            change_record(folder, lambda record: record.update(note=1))
        elif damage == "numbers":
            change_record(folder, other_numbers)
        elif damage == "missing":
            shutil.rmtree(folder)
        elif damage == "columns":
            shutil.copytree(text_folder, folder, dirs_exist_ok=True)
        elif damage == "labels":
            rename_labels(folder)
        else:
            (folder / EXPORT_RECORD).write_text("{")
        service.wait_for(service.service.model.look())
        after = service.post("/predict", {"inputs": PAIR})
    assert before.json() == after.json()
    assert before.headers["tuneline-version"] == after.headers["tuneline-version"]
    assert caplog.text.count("answers on") == 1


def test_folder_is_looked_at_by_itself(folder):
    with running_service(folder, reload_seconds=0.05) as service:
        first = service.post("/predict", {"inputs": PAIR}).headers["tuneline-version"]
        change_record(folder, make_less_sure)
        for _ in range(1000):
            if service.post("/predict", {"inputs": PAIR}).headers["tuneline-version"] != first:
                return
    pytest.fail("the other model was not taken")


def test_service_does_not_start_with_a_model_of_other_numbers(folder):
    change_record(folder, lambda record: record["models"]["fp32"]["probe_outputs"][0].reverse())
    with pytest.raises(StageError, match="computes other numbers here"):
        ServedModel(FolderSource(folder, None))
