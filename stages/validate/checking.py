"""All checks, from the files to the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

from stages.validate.excerpts import Excerpts
from stages.validate.figures import figures
from stages.validate.findings import findings
from stages.validate.gathering import Evidence, Places, gather
from stages.validate.profile import Profile
from stages.validate.report.verdict import Verdict, in_order
from stages.validate.running import outcomes, run_suites
from tuneline.params import Params


@dataclass(frozen=True)
class Checked:
    """What came of checking.

    Attributes:
        verdict: All findings.
        results: As Great Expectations gave them.
        profile: What the data looks like.
    """

    verdict: Verdict
    results: Sequence[ExpectationSuiteValidationResult]
    profile: Profile


def check(params: Params, places: Places, promoted: Profile | None) -> Checked:
    """Checks the data.

    Args:
        params: All parameters.
        places: Where the data lies.
        promoted: Profile of the promoted model's data, when there is one.
    """
    return judge(gather(params, places, promoted))


def judge(evidence: Evidence) -> Checked:
    """Judges what was gathered."""
    results = run_suites(evidence.tables)
    found = list(outcomes(evidence.tables, results))
    excerpts = Excerpts(evidence.places.raw, evidence.params.data.text_columns, evidence.raw)
    told = in_order(list(findings(evidence.params.validate_, found, excerpts)))
    return Checked(Verdict(told, figures(found)), results, Profile(evidence.labels.names, evidence.profiles))
