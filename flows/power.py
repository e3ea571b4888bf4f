"""Compute from finished cells how many questions it takes to order two settings, and how many a planned comparison needs.

python -m flows.power experiment=quick_start
python -m flows.power experiment=quick_start 'power.effects=[2,5]' 'power.sizes=[100,500,3610]'
"""

from collections.abc import Sequence

from omegaconf import DictConfig

from flows._cells import require_finished, resolve_cells
from flows._entry import make_main
from flows._metrics import read_results
from flows._reports import open_report_folder
from flows._stages import Stage
from flows._summary import Summary
from flows.report import describe_provenance
from winnow.artifacts.files import write_texts
from winnow.reports.power import build_power_report, choose_sizes


def power(configs: Sequence[DictConfig]) -> Summary:
    """Write the page on the cells of all jobs; every cell must be finished."""
    cfg, specs = configs[0], resolve_cells(configs)
    require_finished(specs)
    results = read_results(configs, specs)
    sizes = sorted(set(cfg.power.sizes or choose_sizes(max(result.num_questions for result in results))))
    provenance = describe_provenance(cfg, specs)
    page = build_power_report(
        f"Winnow: power of {cfg.sweep.name}", results, provenance, cfg.report.seed, sizes, list(cfg.power.effects)
    )
    out = open_report_folder(cfg)
    write_texts(out, {"power.html": page.render_html(), "power.md": page.render_markdown()})
    rows = [dict(zip(page.tables[0].columns, row, strict=True)) for row in page.tables[0].rows] if page.tables else []
    return Summary(page.title, rows, "\n".join([*page.notes, f"Page: {out / 'power.html'}"]))


STAGE = Stage(power, grid=True, seeds="each")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
