"""Pages in a real browser: what it logs, and what a reader would not be able to read."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"
)
DARK = "--blink-settings=preferredColorScheme=0"
WIDTHS = (1280, 390, 320)
"""Pixels of a desk, of a phone, and of the narrowest screen that WCAG 1.4.10 asks for."""

# Measures the page in a frame, with every fold open.
MEASURE = """
function describe(e, what) {
  const text = e.textContent.trim().slice(0, 40);
  return `${e.tagName} ${e.getAttribute("class") || ""} "${text}": ${what}`;
}
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
function rgb(colour) {  // any CSS colour, over nothing
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
}
const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => [r, g, b].map((c) => linear(c / 255))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
function contrast(view, e) {
  const opaque = (element) => rgb(view.getComputedStyle(element).backgroundColor)[3] === 255;
  let behind = e;
  while (behind.parentElement && !opaque(behind)) behind = behind.parentElement;
  const own = view.getComputedStyle(e), text = e instanceof view.SVGElement ? own.fill : own.color;
  const ground = view.getComputedStyle(behind).backgroundColor;
  const colours = [text, rgb(ground)[3] < 255 ? "white" : ground];
  const [low, high] = colours.map((colour) => luminance(rgb(colour))).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
function measure(frame) {
  const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement, found = [];
  page.querySelectorAll("details").forEach((fold) => fold.open = true);
  if (root.scrollWidth > root.clientWidth)
    found.push(`the page scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
  for (const e of page.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect(), isSvg = e instanceof view.SVGElement;
    if (!box.width || e.closest("caption")) continue;
    if (!isSvg && box.right > root.clientWidth + 1) found.push(describe(e, "is cut at the right"));
    const isBox = !isSvg && view.getComputedStyle(e).display !== "inline";
    if (isBox && e.scrollWidth > e.clientWidth + 1) found.push(describe(e, "is cut or scrolls"));
    if (![...e.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
    const matrix = isSvg ? e.getScreenCTM() : {a: 1, b: 0, c: 0, d: 1};
    const scale = Math.sqrt(Math.abs(matrix.a * matrix.d - matrix.b * matrix.c));
    const size = parseFloat(view.getComputedStyle(e).fontSize) * scale;
    if (size < 11) found.push(describe(e, `text of ${size.toFixed(1)} px`));
    if (contrast(view, e) < 4.5) found.push(describe(e, `contrast ${contrast(view, e).toFixed(1)}`));
  }
  return found;
}
"""
# The reports have no scripts. This one is in an outer page and measures them in frames of these widths.
FRAMES = """
const widths = WIDTHS, findings = {};
let waiting = widths.length;
for (const width of widths) {
  const frame = document.createElement("iframe");
  Object.assign(frame.style, {width: `${width}px`, height: "844px", border: 0});
  frame.onload = () => {
    findings[width] = measure(frame);
    if (!--waiting) document.body.dataset.findings = JSON.stringify(findings);
  };
  frame.src = PAGE;
  document.body.append(frame);
}
"""


def visit(path: Path, profile: Path, *options: str) -> tuple[str, list[str]]:
    """Return the DOM of the loaded page, and the messages of the browser's console."""
    done = subprocess.run(
        [
            *(
                str(BROWSER),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
            ),
            *(
                "--hide-scrollbars",
                "--enable-logging=stderr",
                "--disable-background-networking",
                "--disable-component-update",
                f"--user-data-dir={profile}",
            ),
            *(
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--virtual-time-budget=4000",
                "--allow-file-access-from-files",
                *options,
            ),
            *("--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    return done.stdout, re.findall(r".*:CONSOLE.*", done.stderr)


def unreadable(page: Path, folder: Path, *options: str) -> dict[str, list[str]]:
    """Return what is cut off, smaller than 11 px or paler than a contrast of 4.5 in a page, by width of the
    screen.

    Args:
        page: The page.
        folder: An empty folder for the browser.
        options: Of the browser, such as ``DARK``.
    """
    outer = folder / "measure.html"
    frames = FRAMES.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGE", json.dumps(page.as_uri()))
    outer.write_text(f"<!doctype html><body><script>{MEASURE}{frames}</script>")
    dom, _ = visit(outer, folder / "profile", *options)
    (found,) = re.findall(r'data-findings="([^"]*)"', dom)
    return dict(json.loads(unescape(found)))
