"""Notifications for people: creates the automations of conf/notifications.yaml, which send to one address.

The address contains a secret: it is read from the environment variable TUNELINE_NOTIFY, or from standard
input, which does not show it, and Prefect keeps it encrypted. docs/notifications.md has the addresses of
Slack, Teams, mail and web hooks.
"""

import argparse
import asyncio
import contextlib
import getpass
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, SyncPrefectClient, get_client
from prefect.client.schemas.actions import VariableCreate, VariableUpdate
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings
from pydantic import ValidationError

from flows.runs.repository import Repository
from flows.server.recipient import AddressError, Recipient
from tuneline.core.yaml_files import read_yaml
from tuneline.messages import RECIPIENT_BLOCK, SET, VARIABLE, MessageRecord
from tuneline.runtime.errors import ParamsError
from tuneline.runtime.terminal import say, visible

ADDRESS = "TUNELINE_NOTIFY"
"""Environment variable with the address."""
NOTIFICATIONS = Path("conf/notifications.yaml")
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
            "Of which server? Set PREFECT_API_URL and PREFECT_API_AUTH_STRING as `make schedule` prints them."
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
        Recipient.of(read_address()).save(RECIPIENT_BLOCK, overwrite=True)
        asyncio.run(_record(MessageRecord()))
    block = _block(client)
    if block is None:
        raise NotificationsError(f"No address is set yet: {SET}")
    recipient = cast(
        "Recipient", Recipient.load(RECIPIENT_BLOCK)
    )  # it would be a coroutine in asynchronous code

    if action == "test":
        reason = recipient.send_once("Tuneline: test", "Notifications of Tuneline arrive here.")
        if reason:
            raise NotificationsError(f"{recipient.service} did not take the message: {reason}")
        asyncio.run(_record(MessageRecord(accepted=datetime.now(UTC))))
        return [f"Sent a message to {recipient.service}."]

    automations = automations_of(entries, block)
    _delete(client, block, keep={automation.name for automation in automations})
    lines = [f"Notifications go to {recipient.service}:"]
    for name in apply_automations(client, automations):
        lines.append(f"  {name}")
    return lines


async def _record(record: MessageRecord) -> None:
    async with get_client() as client:
        await write_record(client, record)


async def write_record(client: PrefectClient, record: MessageRecord) -> None:
    """Replace the record of the messages on the server."""
    value = record.model_dump(mode="json")
    if await client.read_variable_by_name(VARIABLE) is None:
        await client.create_variable(VariableCreate(name=VARIABLE, value=value))
    else:
        await client.update_variable(VariableUpdate(name=VARIABLE, value=value))


async def report(client: PrefectClient, what: str, time: datetime) -> None:
    """Record that a message was ``accepted`` or ``lost``, and when."""
    variable = await client.read_variable_by_name(VARIABLE)
    record = MessageRecord()
    if variable is not None:
        record = MessageRecord.model_validate(variable.value)
    await write_record(client, record.model_copy(update={what: time}))


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
    with contextlib.suppress(ObjectNotFound):  # no message was sent
        client.delete_variable_by_name(VARIABLE)
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
            RECIPIENT_BLOCK, Recipient.get_block_type_slug(), include_secrets=False
        ).id
    except ObjectNotFound:
        return None


if __name__ == "__main__":
    main()
