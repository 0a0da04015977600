import pytest

from flows.server.schedule import read_or_create


def test_password_is_generated_once(tmp_path):
    first = read_or_create(tmp_path / "one")
    assert read_or_create(tmp_path / "one") == first
    assert read_or_create(tmp_path / "two") != first
    assert len(first) > len("tuneline:") + 40


def test_password_of_the_user_is_kept(tmp_path):
    (tmp_path / "own").touch(mode=0o600)
    (tmp_path / "own").write_text("me:my-own\n")
    assert read_or_create(tmp_path / "own") == "me:my-own"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o602])
def test_password_that_others_may_know_is_refused(tmp_path, mode):
    file = tmp_path / "secret"
    read_or_create(file)
    file.chmod(mode)
    with pytest.raises(SystemExit, match=f"{file}"):
        read_or_create(file)


def test_link_in_place_of_the_file_is_refused(tmp_path):
    read_or_create(tmp_path / "elsewhere")
    (tmp_path / "secret").symlink_to("elsewhere")
    with pytest.raises(SystemExit, match="is not a file of yours"):
        read_or_create(tmp_path / "secret")


@pytest.mark.parametrize("content", ["", "\n", "tuneline:", ":x", "tuneline", "tuneline:a b", "a:b\nc:d"])
def test_damaged_file_is_reported(tmp_path, content):
    (tmp_path / "secret").touch(mode=0o600)
    (tmp_path / "secret").write_text(content)
    with pytest.raises(SystemExit, match="USER:PASSWORD"):
        read_or_create(tmp_path / "secret")
