import json
import subprocess
import sys
import textwrap

import pytest

from flows.promotion.reference import PROFILE
from flows.runs.pipeline import ArtifactError, Pipeline, PipelineFiles
from flows.runs.processes import ProgramError, Programs
from flows.scoring.deployed import content_hash
from tests.flows.conftest import sh
from tuneline.errors import DataError
from tuneline.repo import cached_out, lock_at


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def pipeline(toy, seen):
    with Programs(toy.root, "test-line") as programs:
        yield Pipeline(programs, seen.append, lock_wait=20)


def test_graph_lists_stages_in_topological_order(pipeline):
    stages = pipeline.graph().stages
    assert set(stages) == {"download", "tokenize", "validate", "train", "evaluate", "export", "compare"}
    assert stages.index("download") < stages.index("tokenize") < stages.index("validate") < stages.index("train")
    assert stages.index("compare") == 6


def set_params(toy, old: str, new: str) -> None:
    """Data that no run of the template has seen: DVC would restore theirs from its cache."""
    path = toy.root / "params.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_reproduce_runs_then_skips_then_restores(pipeline, toy, seen):
    set_params(toy, "rows: 600", "rows: 599")
    assert pipeline.reproduce("download") == "ran"
    assert pipeline.reproduce("download") == "skipped"
    (toy.root / "dvc.lock").unlink()
    assert pipeline.reproduce("download") == "restored"
    assert not [said for said in seen if "git add" in said]


def test_failed_stage_error_has_its_output(pipeline, toy):
    set_params(toy, "fails: 0, counter: null", "fails: 1, counter: attempts")
    with pytest.raises(ProgramError, match=r"(?s)Stage 'download' ended.*download: the network is down"):
        pipeline.reproduce("download")


def hold_lock(toy, seconds: float) -> subprocess.Popen:
    """Another DVC at work: what holds its lock is a process of its own."""
    script = f"""
        import time
        from dvc.repo import Repo
        with Repo({str(toy.root)!r}).lock:
            print("held", flush=True)
            time.sleep({seconds})
    """
    holder = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    return holder


def test_dvc_waits_for_a_busy_lock(pipeline, toy, seen):
    set_params(toy, "rows: 600", "rows: 598")
    with hold_lock(toy, 6):
        assert pipeline.reproduce("download") == "ran"
    assert any("waiting for it" in said for said in seen)


def test_dvc_lock_wait_is_bounded(toy, seen):
    with Programs(toy.root, "test-line") as programs, hold_lock(toy, 600) as holder:
        with pytest.raises(ProgramError, match="Unable to acquire lock"):
            Pipeline(programs, seen.append, lock_wait=0).reproduce("download")
        holder.kill()


def test_restore_takes_sources_from_the_cache_else_from_the_remote(pipeline, toy, tmp_path):
    sh("dvc", "remote", "add", "--default", "shelf", str(tmp_path / "shelf"), cwd=toy.root)
    (toy.root / "source.csv").write_text("a,b\n")
    sh("dvc", "add", "--quiet", "source.csv", cwd=toy.root)
    sh("dvc", "push", "--quiet", cwd=toy.root)
    sources = pipeline.graph().sources
    assert sources == ("source.csv.dvc",)
    (toy.root / "source.csv").unlink()
    pipeline.restore(sources)
    assert (toy.root / "source.csv").exists()
    (toy.root / "source.csv").unlink()
    sh("rm", "-rf", ".dvc/cache", cwd=toy.root)
    pipeline.restore(sources)
    assert (toy.root / "source.csv").read_text() == "a,b\n"


def test_restore_fails_for_missing_sources(pipeline, toy):
    (toy.root / "source.csv").write_text("a,b\n")
    sh("dvc", "add", "--quiet", "source.csv", cwd=toy.root)
    (toy.root / "source.csv").unlink()
    sh("rm", "-rf", ".dvc/cache", cwd=toy.root)
    with pytest.raises(ProgramError, match=r"source\.csv\.dvc"):
        pipeline.restore(("source.csv.dvc",))


def test_pipeline_files_of_a_checkout_and_its_commit_are_equal(toy, registry, promoted):
    here, there = PipelineFiles.of_checkout(toy.root), PipelineFiles.of_commit(toy, registry.in_stage("production").commit)
    assert here.artifact("onnx") == there.artifact("onnx") == "models/onnx"
    assert here.lock.out("models/onnx") == there.lock.out("models/onnx") is not None
    assert there.lock.params()["model.skill"] == 0.8


def test_pipeline_files_have_no_hash_of_outs_that_were_not_made(toy):
    assert PipelineFiles.of_commit(toy, "main").lock.out("models/onnx") is None
    assert "model.skill" not in PipelineFiles.of_commit(toy, "main").lock.params()


def test_file_or_folder_of_a_commit_is_copied_from_the_cache_without_dvc_unless_it_is_damaged_there(toy, registry, promoted, tmp_path):
    commit, profile = registry.in_stage("production").commit, str(PROFILE)
    without_dvc = Pipeline(Programs(toy.root, "not started"), print)
    without_dvc.get(toy, profile, commit, tmp_path / "copy.json", "The profile")
    assert json.loads((tmp_path / "copy.json").read_text()) == promoted
    without_dvc.get(toy, "models/onnx", commit, tmp_path / "onnx", "The model")
    assert content_hash(tmp_path / "onnx") == lock_at(toy.root, commit).out("models/onnx")
    cached = cached_out(toy.root, lock_at(toy.root, commit), profile)
    cached.chmod(0o644)
    cached.write_text("{}")
    with pytest.raises(DataError, match="The profile: DVC's cache is damaged"):
        without_dvc.get(toy, profile, commit, tmp_path / "other.json", "The profile")
    assert not (tmp_path / "other.json").exists()


def test_unknown_artifact_error_names_the_setting(toy):
    with pytest.raises(ArtifactError, match=r"has no artifact 'classifier'; promotion\.artifact in conf/flows\.yaml"):
        PipelineFiles.of_checkout(toy.root).artifact("classifier")
