"""How a decision is told: a Markdown artifact in Prefect, a commit message, an event that automations can react to."""

from typing import Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.events import emit_event

from flows.promotion.gate import Decision
from flows.promotion.registry import Registry, Version
from flows.runs.repository import Repository


def as_text(decision: Decision, production: Version | None) -> str:
    """For a commit message: the decision, and every figure."""
    over = f"{production.name} in production" if production else "nothing in production yet"
    head = f"{'Promoted' if decision.promoted else 'Rejected'} ({over}): {decision.reason}."
    rows = [f"- {'+' if one.met else 'x'} {one.name}: {one.value} (wanted: {one.limit})" for one in decision.criteria]
    return "\n".join([head, "", *rows])


def as_markdown(decision: Decision, production: Version | None, version: Version | None, commit: str, link: str | None) -> str:
    """For people in Prefect's UI: what was decided, and a row for each criterion."""
    model = f"[`{commit[:12]}`]({link})" if link else f"`{commit[:12]}`"
    title = f"# {version.name} is in production" if version else "# Not promoted"
    against = f"{production.name} (`{production.commit[:12]}`)" if production else "none; the commonest label stands in for it"
    rows = [f"| {'✅' if one.met else '❌'} | {one.name} | {_cell(one.value)} | {_cell(one.limit)} |" for one in decision.criteria]
    table = ["| | criterion | found | wanted |", "|---|---|---|---|", *rows]
    return "\n".join([title, "", f"Candidate: {model}  ", f"In production before: {against}", "", *table])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def publish(registry: Registry, decision: Decision, before: Version | None, now: Version | None, commit: str) -> None:
    """Writes the artifacts and emits ``tuneline.model.promoted`` or ``tuneline.model.rejected``.

    Args:
        registry: Of the artifact.
        decision: What was decided.
        before: The version in production at the time.
        now: The new one; ``None`` when the candidate was rejected.
        commit: The candidate's.
    """
    artifact, link = registry.artifact, commit_page(registry.repository, commit)
    markdown = as_markdown(decision, before, now, commit, link)
    create_markdown_artifact(markdown, key="promotion", description=f"{artifact}: {'promoted' if now else 'rejected'}")
    if link:
        create_link_artifact(link, link_text=f"Commit {commit[:12]}", key="candidate", description="The run's commit")
    emit_event(
        event=f"tuneline.model.{'promoted' if now else 'rejected'}",
        resource={"prefect.resource.id": f"tuneline.model.{artifact}", "prefect.resource.name": artifact, "tuneline.commit": commit},
        payload=as_payload(decision, before, now, commit),
    )


def as_payload(decision: Decision, before: Version | None, now: Version | None, commit: str) -> dict[str, Any]:
    """The figures of an event, for programs."""
    gain = decision.gain
    return {
        "commit": commit,
        "version": now.name if now else None,
        "before": before.name if before else None,
        "reason": decision.reason,
        "metric": decision.metric,
        "candidate": gain.candidate,
        "production": gain.baseline,
        "difference": gain.difference,
        "interval": [gain.low, gain.high],
        "mcnemar_p": decision.test.p if decision.test else None,
        "criteria": [{"name": one.name, "value": one.value, "limit": one.limit, "met": one.met} for one in decision.criteria],
    }


def commit_page(repository: Repository, commit: str) -> str | None:
    """Web page of a commit, where ``origin`` is on a host that has such pages under the usual address."""
    if not repository.has_remote():
        return None
    url = repository.git("remote", "get-url", "origin").removesuffix("/").removesuffix(".git")
    if url.startswith("git@"):
        url = "https://" + url.removeprefix("git@").replace(":", "/", 1)
    if not url.startswith("https://"):
        return None
    host, _, path = url.removeprefix("https://").partition("/")
    return f"https://{host.rpartition('@')[2]}/{path}/commit/{commit}"  # without the user or token that an address may hold
