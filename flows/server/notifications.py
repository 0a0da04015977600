"""Notifications for people: creates the automations of conf/notifications.yaml, which send to one address.

The address contains a secret: it is read from the environment variable TUNELINE_NOTIFY, or from standard
input, which does not show it, and Prefect keeps it encrypted. docs/notifications.md has the addresses of
Slack, Teams, mail and web hooks.
"""

import argparse
import contextlib
import getpass
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast
from uuid import UUID

import httpx
from apprise import Apprise, NotifyBase
from prefect.blocks.abstract import NotificationError
from prefect.blocks.notifications import AppriseNotificationBlock
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings
from pydantic import SecretStr, ValidationError

from flows.runs.repository import Repository
from tuneline.core.errors import ParamsError
from tuneline.core.terminal import say, visible
from tuneline.core.yaml_files import read_yaml


class AddressError(ValueError):
    """The address has no form that can be sent to. The message does not contain it."""


class Recipient(AppriseNotificationBlock):
    """Sends to one address of Apprise: Slack, Teams, mail, web hooks and many more."""

    _block_type_name = "Tuneline recipient"
    retries: ClassVar[int] = 3
    retry_seconds: ClassVar[float] = 20.0

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
        service = open_address(self.url.get_secret_value())
        return str(service.service_name) if service else "unknown"

    def block_initialization(self) -> None:
        """Open the address, with more attempts if the receiver does not answer."""
        super().block_initialization()
        for service in self._apprise_client:
            service.retry = self.retries
            service.wait = self.retry_seconds

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
    """Return Apprise's service for an address; ``None`` if there is none.

    Apprise would log the address with its secret.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.suppress(TypeError):
            return Apprise.instantiate(address)
        return None
    finally:
        logging.disable(disabled)


ADDRESS = "TUNELINE_NOTIFY"
"""Environment variable with the address."""
NOTIFICATIONS = Path("conf/notifications.yaml")
BLOCK = "people"
"""Name of the block with the address."""
ACTIONS = {
    "set": "set or replace the address, and apply conf/notifications.yaml",
    "update": "apply conf/notifications.yaml after a change",
    "test": "send one message now",
    "remove": "remove address and automations",
}


class NotificationsError(Exception):
    """``conf/notifications.yaml`` is invalid, no address is set, or a message cannot be sent."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.notifications", description=__doc__)
    parser.add_argument(
        "action", choices=ACTIONS, help="; ".join(f"{name}: {text}" for name, text in ACTIONS.items())
    )
    action = parser.parse_args().action

    api = get_current_settings().api.url
    if api is None:  # Prefect would start a temporary server
        sys.exit(
            "Of which server? Set PREFECT_API_URL and PREFECT_API_AUTH_STRING as `make serve` prints them."
        )
    try:
        with get_client(sync_client=True) as client:
            say("\n".join(_run(action, client)))
    except (AddressError, NotificationsError, ParamsError) as error:
        sys.exit(visible(str(error)))
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        sys.exit(visible(f"The Prefect server at {api} did not do it: {reason}"))


def _run(action: str, client: SyncPrefectClient) -> list[str]:
    """Do it, and return what was done."""
    if action == "remove":
        removed = [f"Removed {name}" for name in remove_automations(client)]
        return removed or ["There is nothing to remove."]

    entries = read_entries(Repository.here().root)  # before anything is changed
    if action == "set":
        Recipient.of(read_address()).save(BLOCK, overwrite=True)
    block = _block(client)
    if block is None:
        raise NotificationsError("No address is set yet: python -m flows.server.notifications set")
    recipient = cast("Recipient", Recipient.load(BLOCK))  # it would be a coroutine in asynchronous code

    if action == "test":
        reason = recipient.try_once("Tuneline: test", "Notifications of Tuneline arrive here.")
        if reason:
            raise NotificationsError(f"{recipient.service} did not take the message: {reason}")
        return [f"Sent a message to {recipient.service}."]

    automations = automations_of(entries, block)
    _delete(client, block, keep={automation.name for automation in automations})
    lines = [f"Notifications go to {recipient.service}:"]
    for name in apply_automations(client, automations):
        lines.append(f"  {name}")
    return lines


def read_address() -> str:
    """Return the address: from the environment, a prompt that hides it, or the first line of a pipe."""
    address = os.environ.get(ADDRESS)
    if not address:
        if sys.stdin.isatty():
            address = getpass.getpass("Address (it is not shown): ")
        else:
            address = sys.stdin.readline()
    return address.strip()


def read_entries(root: Path) -> list[dict[str, Any]]:
    """Return the automations of ``conf/notifications.yaml``, still without the block that sends.

    Raises:
        ParamsError: The file is missing, or is not valid YAML.
        NotificationsError: It has no automations, or invalid ones.
    """
    file = root / NOTIFICATIONS
    content = read_yaml(file)
    try:
        entries = content["automations"]
        automations_of(entries, UUID(int=0))
    except (TypeError, LookupError, AttributeError) as error:
        raise NotificationsError(
            f"{file} is not a list `automations` of Prefect automations: {error}"
        ) from None
    except ValidationError as error:
        lines = [f"{file} has errors:"]
        for problem in error.errors():
            place = ".".join(map(str, problem["loc"]))
            lines.append(f"{place}: {problem['msg']}")
        raise NotificationsError("\n  ".join(lines)) from None
    return list(entries)


def automations_of(entries: list[dict[str, Any]], block: UUID) -> list[AutomationCore]:
    """Return the automations whose messages go to a block."""
    automations = []
    for entry in entries:
        actions = [_sending(action, block) for action in entry["actions"]]
        automations.append(AutomationCore.model_validate({**entry, "actions": actions}))
    return automations


def _sending(action: dict[str, Any], block: UUID) -> dict[str, Any]:
    """Return an action of the file; one that sends gets the block, unless the file names another."""
    if action.get("type") == "send-notification":
        return {"block_document_id": str(block), **action}
    return action


def remove_automations(client: SyncPrefectClient) -> list[str]:
    """Delete the automations and the block with the address, and return their names."""
    block = _block(client)
    if block is None:
        return []
    names = _delete(client, block, keep=set())
    client.delete_block_document(block)
    return [*names, "the address"]


def apply_automations(client: SyncPrefectClient, automations: Sequence[AutomationCore]) -> list[str]:
    """Create the automations, replace those whose content differs, and return their names.

    An automation that is up to date is left alone: it knows for which runs it waits. One that a person
    disabled stays so.
    """
    for automation in automations:
        existing = client.read_automations_by_name(automation.name)
        if existing:
            automation.enabled = all(former.enabled for former in existing)

        # Of several equal ones, one stays.
        content = _content(automation)
        up_to_date = [former for former in existing if _content(former) == content][:1]
        for former in existing:
            if former not in up_to_date:
                client.delete_automation(former.id)
        if not up_to_date:
            client.create_automation(automation)
    return [automation.name for automation in automations]


def _content(automation: AutomationCore) -> dict[str, Any]:
    """Return the content to compare, without the ids that the server adds."""
    content = automation.model_dump(mode="json", include=set(AutomationCore.model_fields))
    return {**content, "trigger": _comparable(content["trigger"])}


def _comparable(trigger: dict[str, Any]) -> dict[str, Any]:
    """Return a trigger without its id, with sets as sorted lists: their order varies."""
    comparable = {**trigger, "id": None}
    for name in ("after", "expect", "for_each"):
        if name in trigger:
            comparable[name] = sorted(trigger[name])
    if "triggers" in trigger:
        comparable["triggers"] = [_comparable(nested_trigger) for nested_trigger in trigger["triggers"]]
    return comparable


def _delete(client: SyncPrefectClient, block: UUID, keep: set[str]) -> list[str]:
    """Delete the automations that send to the block, except the names to keep, and return their names."""
    deleted = []
    for automation in client.read_automations():
        sends = any(
            isinstance(action, SendNotification) and action.block_document_id == block
            for action in automation.actions
        )
        if sends and automation.name not in keep:
            client.delete_automation(automation.id)
            deleted.append(automation.name)
    return deleted


def _block(client: SyncPrefectClient) -> UUID | None:
    """Return the id of the block with the address; ``None`` if no address was set."""
    try:
        return client.read_block_document_by_name(
            BLOCK, Recipient.get_block_type_slug(), include_secrets=False
        ).id
    except ObjectNotFound:
        return None


if __name__ == "__main__":
    main()
