import pytest

from tuneline.cli.doctor import environment


def test_this_environment_is_as_pinned(root):
    """The suite runs in what `make setup` installs; doctor must find nothing wrong with it."""
    assert environment.packages(root / "requirements.txt", environment.installed()).level == "ok"


@pytest.mark.parametrize(("version", "level"), [((3, 10), "error"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "error")])
def test_a_python_that_the_lock_was_not_made_for_is_an_error(version, level):
    assert environment.python(version).level == level


def lock(tmp_path, text):
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    return path


def test_a_package_in_another_version_and_a_missing_one_are_named(tmp_path):
    found = environment.packages(lock(tmp_path, "numpy==2.0\n    # via x\ntorch==2.1\nabsent==1\n"), {"numpy": "2.0", "torch": "2.2+cpu"})
    assert found.level == "error"
    assert found.what == "not as pinned: torch 2.2+cpu (pinned: 2.1), absent missing (pinned: 1)"


def test_a_build_for_the_cpu_is_the_same_version(tmp_path):
    assert environment.packages(lock(tmp_path, "torch==2.1\n"), {"torch": "2.1+cpu"}).level == "ok"


def test_a_pin_for_another_python_is_not_wanted_here(tmp_path):
    assert environment.packages(lock(tmp_path, "absent==1 ; python_full_version < '3.0'\n"), {}).level == "ok"


def test_names_are_compared_as_the_registry_does(tmp_path):
    assert environment.packages(lock(tmp_path, "ruamel-yaml==1\n"), {"ruamel-yaml": "1"}).level == "ok"


def test_many_wrong_packages_do_not_fill_the_screen(tmp_path):
    found = environment.packages(lock(tmp_path, "".join(f"p{n}==1\n" for n in range(50))), {})
    assert found.what.endswith("and 44 more")


def test_programs_of_another_environment_are_a_warning(tmp_path):
    """`dvc repro` starts `python -m stages.NAME` by PATH: without .venv in it, another Python would run the stages."""
    (tmp_path / "bin").mkdir()
    own = str(tmp_path / "bin/python")
    assert environment.programs(tmp_path, own, own, own).level == "ok"
    found = environment.programs(tmp_path, "/usr/bin/python", own, None)
    assert found.level == "warning"
    assert "/usr/bin/python, none" in found.what
