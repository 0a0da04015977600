"""A browser that a test drives: it types, presses, and reads what is there, by the Chrome DevTools Protocol.

https://chromedevtools.github.io/devtools-protocol. The browser reads messages from file descriptor 3 and
writes to 4, each with a zero byte at its end, so no port and no library is needed.
"""

import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser import BROWSER, MEASURE

SECONDS = 60
KEYS = {"Tab": (9, ""), "Enter": (13, "\r")}
HEIGHTS = {1280: 900, 390: 844}


class DrivenPage:
    """A page in a browser.

    Attributes:
        console: Errors and messages of its console, violations of its content security policy included.
        requests: Addresses that it has asked for.
    """

    def __init__(self, commands: int, messages: int) -> None:
        """Open an empty page; take the ends of the pipes."""
        self.console: list[str] = []
        self.requests: list[str] = []
        self._commands = commands
        self._messages = os.fdopen(messages, "rb", closefd=False)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result; note the events that come before."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _read(self) -> bytes:
        message = bytearray()
        while (byte := self._messages.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        return bytes(message)

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.console.append(json.dumps(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.console.append(json.dumps(params["args"]))
        elif event == "Page.javascriptDialogOpening":
            self.console.append(f"dialog: {params['message']}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, address: str, width: int = 1280, scheme: str = "light") -> None:
        """Load a page on a screen of a width, for a person who likes it light or dark."""
        size = {"width": width, "height": HEIGHTS[width], "deviceScaleFactor": 1, "mobile": width < 720}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        likes = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=likes)
        self.send("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + SECONDS
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression}: {self.text('body')}"
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """Return the text of an element that a person sees; empty if they see none."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a kind."""
        return self.value(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText)"
        )

    def sees(self, selector: str) -> bool:
        """Return True if an element is visible."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false")

    def click(self, selector: str) -> None:
        """Press the middle of an element with the mouse."""
        found = json.dumps(selector)
        middle = "{block: 'center', behavior: 'instant'}"
        self.value(f"document.querySelector({found}).scrollIntoView({middle})")
        box = self.value(f"document.querySelector({found}).getBoundingClientRect().toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def type(self, text: str) -> None:
        """Type where the cursor is."""
        self.send("Input.insertText", text=text)

    def key(self, name: str, modifiers: int = 0) -> None:
        """Press a key."""
        code, text = KEYS[name]
        key = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **key)
        self.send("Input.dispatchKeyEvent", type="keyUp", **key)

    def focused(self) -> str:
        """Return the id of the element that has the cursor."""
        return self.value("document.activeElement.id")

    def unreadable(self) -> list[str]:
        """Return what is cut off, smaller than 11 px or paler than a contrast of 4.5."""
        frame = "{contentWindow: window, contentDocument: document}"
        return self.value(f"(() => {{{MEASURE}\nreturn measure({frame})}})()")


@contextmanager
def driven_browser(profile: Path) -> Iterator[DrivenPage]:
    """Open a page in a browser of its own, which keeps its files in ``profile``, until the block ends."""
    commands_out, commands = os.pipe()
    messages, messages_in = os.pipe()
    arguments = [
        str(BROWSER),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]
    pipes = f'exec "$@" 3<&{commands_out} 4>&{messages_in}'
    browser = subprocess.Popen(
        ["bash", "-c", pipes, "browser", *arguments],
        pass_fds=(commands_out, messages_in),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands_out)
    os.close(messages_in)
    late = threading.Timer(150, browser.kill)  # a browser that hangs ends its messages
    late.start()
    try:
        yield DrivenPage(commands, messages)
    finally:
        late.cancel()
        browser.terminate()
        browser.wait(10)
        os.close(commands)
        os.close(messages)
