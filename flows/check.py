"""Check that all that an experiment will need is there, before anything is paid, trained or
written.

The stages that make calls or train run the same checks first.

python -m flows.check experiment=quick_start
python -m flows.check experiment=rage/published_sft reader.base=/models/mistral
"""

from collections.abc import Sequence

from flows.project.checks import run_checks
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary
from winnow.errors import ConfigError


def check(jobs: Sequence[Settings]) -> Summary:
    """Run every check; raise ConfigError after the last one if any failed."""
    rows = run_checks(jobs)
    summary = Summary("Checks", rows)
    failures = [row for row in rows if row["result"] != "ok"]
    if failures:
        summary.show()
        raise ConfigError(f"{len(failures)} of {len(rows)} checks failed. Nothing was run.")
    return summary


STAGE = Stage(check, grid=True, seeds="each")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
