"""The page in a real browser: no console error, no network request, no horizontal scrolling on a phone."""

import re
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
    pytest.mark.timeout(180),
]

# Measures the page in a frame as wide as a phone. The page itself has no script; this one is in the outer page.
PHONE = """<!doctype html><iframe id="phone" src="index.html" style="width:390px;height:844px;border:0"></iframe>
<script>document.getElementById("phone").onload = (event) => {
  const page = event.target.contentDocument.documentElement;
  document.body.dataset.widths = `${page.scrollWidth} of ${page.clientWidth}`;
};</script>"""
BROKEN_PAGE = "<!doctype html><title>t</title><img src='file:///nowhere.png'><script>console.error('seen'); absent()</script>"


def visit(path, profile, *options) -> tuple[str, list[str]]:
    """Return the DOM of the loaded page, and the messages of the browser's console."""
    done = subprocess.run(
        [
            *(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--enable-logging=stderr", "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=4000", "--allow-file-access-from-files", *options),
            *("--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    return done.stdout, re.findall(r".*:CONSOLE.*", done.stderr)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a classifier with a previous commit, of a regression, and of a pipeline that never ran."""
    paths = {}
    for kind, names in (("classifier", ("billing", "delivery", "damage")), ("regression", None), ("empty", ("a", "b"))):
        root = tmp_path_factory.mktemp(kind)
        project = FinishedProject(root, names)
        if kind != "empty":
            project.run_pipeline().commit()
            project.run_pipeline(skill=3.0, seed=2)
        project.commit("Learn more")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
        paths[kind] = root / "reports/index.html"
    return paths


def test_console_errors_are_detected(tmp_path):
    """The other tests rely on this."""
    (tmp_path / "broken.html").write_text(BROKEN_PAGE)
    _, console = visit(tmp_path / "broken.html", tmp_path / "profile")
    assert any("seen" in line for line in console)
    assert any("absent is not defined" in line for line in console)


@pytest.mark.parametrize("kind", ["classifier", "regression", "empty"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_logs_nothing_to_the_console(pages, tmp_path, kind, scheme):
    dom, console = visit(pages[kind], tmp_path / "profile", *(["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []))
    assert console == []
    assert "<h1>" in dom
    assert kind == "empty" or dom.count("<svg") > 4


@pytest.mark.parametrize("kind", ["classifier", "regression"])
def test_page_does_not_scroll_sideways_on_a_phone(pages, tmp_path, kind):
    frame = pages[kind].parent / "phone.html"
    frame.write_text(PHONE)
    dom, _ = visit(frame, tmp_path / "profile")
    content, frame_width = re.search(r'data-widths="(\d+) of (\d+)"', dom).groups()
    assert content == frame_width, "something makes the page scroll sideways"
    assert 300 < int(frame_width) <= 390
