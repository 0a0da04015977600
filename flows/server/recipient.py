"""The recipient of messages: one address, to which a message is sent without stopping anything else.

Prefect's server executes the actions of automations one after the other, and a message is one of them. A
receiver that does not answer would delay all others, and the trainings that automations start. So a message
is only handed over to ``deliveries``, which try again for an hour.

A message contains words that others wrote: a reason, the name of a class, a file name. ``plain`` takes the
meaning from what a receiver would obey: ``<!channel>`` is an alarm for everybody in Slack.
"""

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

from apprise import Apprise, AppriseAsset, NotifyBase, NotifyFormat
from prefect.blocks.notifications import AppriseNotificationBlock
from prefect.logging import LogEavesdropper
from pydantic import SecretStr

from tuneline.runtime.terminal import say, visible

SECONDS = 15.0
"""Seconds that a receiver has to take a message."""
SECONDS_OF_SILENCE = 5.0
"""Seconds that it may be silent meanwhile."""
PAUSES = (20.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds before each further attempt."""
MOST_WAITING = 100
"""Messages that wait for an attempt at a time; further ones are lost."""
MOST_HANGING = 4
"""Attempts that a receiver may keep open after their time; then there is no other one."""
PROGRAMS = ("json", "jsons", "xml", "xmls", "form", "forms")
"""Schemes of receivers that are programs: they get the words as they are."""
MAIL = ("mailto", "mailtos")
SLACK = "slack"
_MARKUP = re.compile(r"(?<=[<@])(?=\S)|(?<=\])(?=\()")
"""Where chats look for a mention, a link or a tag: after ``<`` or ``@``, and in ``[words](address)``."""
_NOTHING = "\u200b"
"""A space without width."""


class AddressError(ValueError):
    """The address has no form that can be sent to. The message does not contain it."""


class Recipient(AppriseNotificationBlock):
    """Sends to one address of Apprise: Slack, Teams, mail, web hooks and many more."""

    _block_type_name = "Tuneline recipient"
    _service: NotifyBase | None = None
    _hanging: ClassVar[list[threading.Thread]] = []

    @classmethod
    def of(cls, address: str) -> "Recipient":
        """Return the block for an address; a plain web address is a web hook that takes JSON."""
        # As it is first: Apprise knows the web addresses of Slack and Teams.
        addresses = [address]
        if address.startswith(("https://", "http://")):
            addresses.append(address.replace("http", "json", 1))
        for candidate in addresses:
            if open_address(candidate):
                return cls(url=SecretStr(candidate))
        raise AddressError("This is not an address that notifications can be sent to.")

    @property
    def service(self) -> str:
        """Name of the service, for people."""
        return str(self._service.service_name) if self._service else "unknown"

    def block_initialization(self) -> None:
        """Open the address."""
        self._service = open_address(self.url.get_secret_value())

    async def notify(self, body: str, subject: str | None = None) -> None:
        """Hand a message over, and return at once."""
        deliveries.add(self, subject or "", body)

    def send_once(self, subject: str, body: str) -> str | None:
        """Send a message, and return why the receiver did not take it in time; ``None`` if it did."""
        self._hanging[:] = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= MOST_HANGING:
            return "It has not answered earlier attempts yet."

        # A receiver that answers byte by byte keeps an attempt open; nobody waits for it longer.
        reasons: list[str | None] = []
        attempt = threading.Thread(target=lambda: reasons.append(self._try(subject, body)), daemon=True)
        attempt.start()
        attempt.join(SECONDS)
        if not reasons:
            self._hanging.append(attempt)
            return f"It did not answer within {SECONDS:g} s."
        return reasons[0]

    def _try(self, subject: str, body: str) -> str | None:
        """Send a message, however long that takes."""
        if self._service is None:
            return "The address is not valid any more."
        client = Apprise(self._service)
        with LogEavesdropper("apprise", level=logging.WARNING) as said:
            taken = client.notify(
                title=plain(subject, self._service, is_title=True),
                body=plain(body, self._service),
                body_format=NotifyFormat.TEXT,
            )
        return None if taken else said.text().strip() or "It gave no reason."


def open_address(address: str) -> NotifyBase | None:
    """Return Apprise's service for an address; ``None`` if there is none.

    It follows no redirects, and tries once. Apprise would log the address with its secret.
    """
    asset = AppriseAsset(app_id="Tuneline", app_desc="Tuneline", app_url="", http_redirects=False)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        service = None
        with contextlib.suppress(TypeError):
            service = Apprise.instantiate(address, asset=asset)
    finally:
        logging.disable(disabled)
    if service is not None:
        # also where the address says otherwise
        service.redirects = False
        service.retry = 0
        service.socket_connect_timeout = min(service.socket_connect_timeout, SECONDS_OF_SILENCE)
        service.socket_read_timeout = min(service.socket_read_timeout, SECONDS_OF_SILENCE)
        if _scheme(service) == SLACK:
            service.notify_format = NotifyFormat.TEXT  # else it would look for mentions and links itself
    return service


def plain(text: str, service: NotifyBase, *, is_title: bool = False) -> str:
    """Return a text in which a receiver finds words only: no mention, no link behind other words, no tag."""
    scheme = _scheme(service)
    if scheme in PROGRAMS or scheme in MAIL:  # Apprise writes the HTML of mail
        return text
    if scheme == SLACK:
        if is_title:  # Apprise does the same with it
            return text
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(_NOTHING, text)


def _scheme(service: NotifyBase) -> str:
    """Return the first word of a service's addresses."""
    schemes: Any = service.secure_protocol or service.protocol
    if isinstance(schemes, str):
        return schemes
    return str(schemes[0])


class Deliveries:
    """Messages that wait until their recipient takes them.

    Attributes:
        report: Called with ``accepted`` or ``lost``, and the time, when a message no longer waits.
    """

    def __init__(self) -> None:
        self.report: Callable[[str, datetime], Awaitable[Any]] | None = None
        self._waiting: set[asyncio.Task[None]] = set()

    def add(self, recipient: Recipient, subject: str, body: str) -> None:
        """Send a message, now or later."""
        if len(self._waiting) >= MOST_WAITING:
            say(visible(f"server: too many messages wait; this one is lost: {subject}"), error=True)
            return
        task = asyncio.create_task(self._deliver(recipient, subject, body))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _deliver(self, recipient: Recipient, subject: str, body: str) -> None:
        """Try until the recipient takes a message, or no pause is left."""
        reason = await asyncio.to_thread(recipient.send_once, subject, body)
        for pause in PAUSES:
            if reason is None:
                break
            say(
                visible(
                    f"server: {recipient.service} did not take a message ({subject}): {reason} The next"
                    f" attempt is in {pause:.0f} s."
                ),
                error=True,
            )
            await asyncio.sleep(pause)
            reason = await asyncio.to_thread(recipient.send_once, subject, body)
        if reason is not None:
            say(visible(f"server: a message is lost ({subject}): {reason}"), error=True)
        await self._report("accepted" if reason is None else "lost")

    async def _report(self, what: str) -> None:
        if self.report is None:
            return
        try:
            await self.report(what, datetime.now(UTC))
        except Exception as error:
            say(f"server: the time of a message is not recorded: {type(error).__name__}: {error}", error=True)


deliveries = Deliveries()
"""The messages of this process: Prefect makes the block anew for each one."""
