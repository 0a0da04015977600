"""The page in a real browser: no error in its console, nothing asked of the network, nothing wider than a phone."""

import re
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from tests.tuneline.made import Made
from tuneline.cli import app

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
    pytest.mark.timeout(180),
]

# Measures the page in a frame as wide as a phone. The page itself runs no script; this one stands outside.
PHONE = """<!doctype html><iframe id="phone" src="index.html" style="width:390px;height:844px;border:0"></iframe>
<script>document.getElementById("phone").onload = (event) => {
  const page = event.target.contentDocument.documentElement;
  document.body.dataset.widths = `${page.scrollWidth} of ${page.clientWidth}`;
};</script>"""
FAULTY = "<!doctype html><title>t</title><img src='file:///nowhere.png'><script>console.error('seen'); absent()</script>"


def visit(path, profile, *options) -> tuple[str, list[str]]:
    """What the page looks like once it is loaded, and what the browser's console says."""
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
    """Pages of a classifier with an earlier commit, of a regression, and of a line that never ran."""
    found = {}
    for kind, names in (("classifier", ("billing", "delivery", "damage")), ("regression", None), ("empty", ("a", "b"))):
        root = tmp_path_factory.mktemp(kind)
        made = Made(root, names)
        if kind != "empty":
            made.line().commit()
            made.line(skill=3.0, seed=2)
        made.commit("Learn more")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
        found[kind] = root / "reports/index.html"
    return found


def test_an_error_in_the_console_would_be_seen(tmp_path):
    """What the other tests rely on."""
    (tmp_path / "faulty.html").write_text(FAULTY)
    _, console = visit(tmp_path / "faulty.html", tmp_path / "profile")
    assert any("seen" in line for line in console)
    assert any("absent is not defined" in line for line in console)


@pytest.mark.parametrize("kind", ["classifier", "regression", "empty"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_console_stays_empty(pages, tmp_path, kind, scheme):
    dom, console = visit(pages[kind], tmp_path / "profile", *(["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []))
    assert console == []
    assert "<h1>" in dom
    assert kind == "empty" or dom.count("<svg") > 4


@pytest.mark.parametrize("kind", ["classifier", "regression"])
def test_nothing_is_wider_than_a_phone(pages, tmp_path, kind):
    frame = pages[kind].parent / "phone.html"
    frame.write_text(PHONE)
    dom, _ = visit(frame, tmp_path / "profile")
    content, frame_width = re.search(r'data-widths="(\d+) of (\d+)"', dom).groups()
    assert content == frame_width, "something makes the page scroll sideways"
    assert 300 < int(frame_width) <= 390
