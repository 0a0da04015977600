"""Passwords are in no message, and stages do not get what only git needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.runs.credentials import redacted
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import GitError, Repository

SCHEMES = ("https", "ssh", "s3", "git+http")
VISIBLE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="'\""), min_size=1)


@given(
    user=VISIBLE.filter(lambda user: not set(user) & set("/:@")),
    password=VISIBLE,
    scheme=st.sampled_from(SCHEMES),
)
def test_any_password_of_an_address_is_redacted(user, password, scheme):
    said = f"fatal: unable to access '{scheme}://{user}:{password}@git.example.com/team/x.git/': 403"
    assert redacted(said) == f"fatal: unable to access '{scheme}://***@git.example.com/team/x.git/': 403"


@pytest.mark.parametrize(
    "text", ["https://git.example.com/a/b@v1", "see https://a.example, or write to me@b.example", "/origin", "me@host:line.git"]
)
def test_text_without_a_password_stays(text):
    assert redacted(text) == text


def test_token_without_a_user_is_redacted():
    assert redacted("From https://t0ken@git.example.com/x") == "From https://***@git.example.com/x"


def test_password_is_not_in_a_git_error(tmp_path):
    with pytest.raises(GitError) as error:
        Repository(tmp_path).git("clone", "--", "http://me:pa/ss@127.0.0.1:9/x.git", "there")
    assert "***@127.0.0.1:9/x.git" in str(error.value)
    assert "pa/ss" not in str(error.value)


def test_password_is_not_in_the_output_of_a_program(tmp_path):
    seen = []
    with Programs(tmp_path, "test", preload=False) as programs, pytest.raises(ProgramError) as error:
        programs.run(["sh", "-c", "echo cannot push to https://me:s3cret@host/x; exit 1"], "It", seen.append)
    assert seen == ["cannot push to https://***@host/x"]
    assert "s3cret" not in str(error.value)


def test_stages_do_not_get_the_credentials_of_git(toy, monkeypatch):
    monkeypatch.setenv("GIT_TOKEN", "s3cret")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "s3cret")
    monkeypatch.setenv("HF_TOKEN", "for the hub")
    (toy.root / "dvc.yaml").write_text("stages:\n  train:\n    cmd: env > out\n    outs: [out]\n")
    with Programs(toy.root, "test", preload=False) as programs:
        Pipeline(programs, print).reproduce("train")
    seen = (toy.root / "out").read_text()
    assert "s3cret" not in seen
    assert "HF_TOKEN=for the hub" in seen
