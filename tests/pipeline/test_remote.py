"""A DVC remote in an object store: one machine pushes its results, another one clones, pulls, and only writes
its page."""

import pytest

from tests.pipeline.test_pipeline import project, run, stages_run  # noqa: F401 - two are fixtures
from tests.project import Project
from tests.s3 import ENVIRONMENT, Bucket, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_clone_pulls_from_an_object_store_and_runs_only_the_report(project, tmp_path):  # noqa: F811 - the fixture
    """Credentials and address come from the environment, so that neither is in the repository."""
    pytest.importorskip("dvc_s3", reason="the extra s3 is not installed")
    with served() as endpoint:
        bucket, env = Bucket(endpoint, "models"), {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}
        project.run("dvc", "remote", "add", "--default", "storage", f"{bucket.url}/tuneline")
        project.commit("Use the object store")
        refused = project.run("dvc", "push", check=False, **{**env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
        assert refused.returncode != 0, "a store that does not answer must not look like a push"
        project.run("dvc", "push", **env)
        assert "Everything is up to date" in project.run("dvc", "push", **env).stdout

        project.run("git", "clone", "--quiet", str(project.folder), str(tmp_path / "elsewhere"))
        elsewhere = Project(tmp_path / "elsewhere")
        elsewhere.run("dvc", "pull", **env, DVC_SITE_CACHE_DIR=str(tmp_path / "site"))
    # The page is of this machine, so it is in no cache.
    assert stages_run(elsewhere.run("dvc", "repro").stdout) == ["report"]
    assert stages_run(elsewhere.run("dvc", "repro").stdout) == []
    assert elsewhere.lock() == project.lock()
    assert elsewhere.status() == ""
    for name in ("models/classifier/model.safetensors", "data/raw/train.parquet"):
        assert (elsewhere.folder / name).read_bytes() == (project.folder / name).read_bytes()
