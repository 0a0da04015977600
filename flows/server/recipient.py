"""The block that sends notifications to people. The server that sends them must know its class: ``flows/server/api.py`` imports it."""

import contextlib
import logging
from typing import ClassVar

from apprise import Apprise, NotifyBase
from prefect.blocks.abstract import NotificationError
from prefect.blocks.notifications import AppriseNotificationBlock
from pydantic import SecretStr


class AddressError(ValueError):
    """The address has no form that can be sent to. The message does not contain it."""


class Recipient(AppriseNotificationBlock):
    """Sends to one address of Apprise: Slack, Teams, mail, web hooks and many more."""

    _block_type_name = "Tuneline recipient"
    retries: ClassVar[int] = 3
    retry_seconds: ClassVar[float] = 20.0

    @classmethod
    def of(cls, address: str) -> "Recipient":
        """Return the block for an address; a plain web address is that of a web hook that takes JSON.

        Raises:
            AddressError: The address cannot be sent to.
        """
        web_hook = address.replace("http", "json", 1) if address.startswith(("https://", "http://")) else address
        for one in dict.fromkeys((address, web_hook)):  # that of Slack or Teams is known as it is
            if open_address(one):
                return cls(url=SecretStr(one))
        raise AddressError("This is not an address that notifications can be sent to.")

    @property
    def service(self) -> str:
        """Name of the service, for people."""
        opened = open_address(self.url.get_secret_value())
        return str(opened.service_name) if opened else "unknown"

    def block_initialization(self) -> None:
        """Open the address, with more attempts if the receiver does not answer."""
        super().block_initialization()
        for service in self._apprise_client:
            service.retry, service.wait = self.retries, self.retry_seconds

    def try_once(self, subject: str, body: str) -> str | None:
        """Send a message without another attempt, and return why that failed; ``None`` if it did not."""
        for service in self._apprise_client:
            service.retry = 0
        with self.raise_on_failure():
            try:
                self.notify(body, subject)
            except NotificationError as error:
                return error.log.strip() or "The receiver gave no reason."
        return None


def open_address(address: str) -> NotifyBase | None:
    """Return Apprise's service for an address; ``None`` if there is none. Apprise would log the address with its secret."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.suppress(TypeError):
            return Apprise.instantiate(address)
        return None
    finally:
        logging.disable(disabled)
