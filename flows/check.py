"""Check that all that an experiment will need is there, before anything is paid, trained or written.

The stages that make calls or train run the same checks first.

python -m flows.check experiment=quick_start
python -m flows.check experiment=rage/published_sft reader.base=/models/mistral
"""

from collections.abc import Sequence

from omegaconf import DictConfig

from flows._checks import run_checks
from flows._entry import make_main
from flows._stages import Stage
from flows._summary import Summary
from winnow.errors import ConfigError


def check(configs: Sequence[DictConfig]) -> Summary:
    """Run every check; raise ConfigError after the last one if any failed."""
    rows = run_checks(configs)
    summary = Summary("Checks", rows)
    failed = [row for row in rows if row["result"] != "ok"]
    if failed:
        summary.show()
        raise ConfigError(f"{len(failed)} of {len(rows)} checks failed. Nothing was run.")
    return summary


STAGE = Stage(check, grid=True, seeds="each")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
