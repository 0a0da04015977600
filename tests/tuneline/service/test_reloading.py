"""The model that answers is replaced while requests are answered."""

import json
import shutil
import threading

import pytest

from tests.service import running_service
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.runtime.errors import StageError
from tuneline.service.models import FolderSource
from tuneline.service.reloading import ServedModel

PAIR = ["the parcel", "never came"]


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


def test_other_model_of_the_folder_answers_after_a_look(folder):
    with running_service(folder) as service:
        first = service.post("/predict", {"inputs": PAIR})
        change_record(folder, make_less_sure)
        service.wait_for(service.service.model.look())
        second = service.post("/predict", {"inputs": PAIR})
        page = service.client.get("/metrics").text
    assert first.headers["tuneline-version"] != second.headers["tuneline-version"]
    assert first.json() != second.json()
    assert 'tuneline_reloads_total{outcome="loaded"} 1.0' in page
    assert f'tuneline_model{{version="{second.headers["tuneline-version"]}"}} 1.0' in page
    assert page.count("tuneline_model{") == 1


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


@pytest.mark.parametrize("damage", ["bytes", "numbers", "missing", "record", "keys"])
def test_damaged_model_is_refused_and_the_old_one_answers_on(folder, capsys, damage):
    def other_numbers(record):
        record["models"]["fp32"]["probe_outputs"][0][0] += 3

    with running_service(folder) as service:
        before = service.post("/predict", {"inputs": PAIR})
        if damage == "bytes":
            (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes() + b"x")
            change_record(folder, lambda record: record.update(note=1))
        elif damage == "numbers":
            change_record(folder, other_numbers)
        elif damage == "keys":
            change_record(folder, lambda record: record["models"]["fp32"]["sha256"].clear())
        elif damage == "missing":
            shutil.rmtree(folder)
        else:
            (folder / EXPORT_RECORD).write_text("{")
        service.wait_for(service.service.model.look())
        service.wait_for(service.service.model.look())
        after = service.post("/predict", {"inputs": PAIR})
        page = service.client.get("/metrics").text
    assert before.json() == after.json()
    assert before.headers["tuneline-version"] == after.headers["tuneline-version"]
    assert capsys.readouterr().err.count("answers on") == 1
    assert 'tuneline_reloads_total{outcome="refused"} 1.0' in page


def test_repaired_model_is_taken(folder):
    with running_service(folder) as service:
        content = (folder / "model.onnx").read_bytes()
        (folder / "model.onnx").write_bytes(b"half")
        change_record(folder, make_less_sure)
        service.wait_for(service.service.model.look())
        first = service.post("/predict", {"inputs": PAIR}).headers["tuneline-version"]
        (folder / "model.onnx").write_bytes(content)
        service.wait_for(service.service.model.look())
        assert service.post("/predict", {"inputs": PAIR}).headers["tuneline-version"] != first


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
        ServedModel(FolderSource(folder, None), print)
