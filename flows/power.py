"""Compute from finished cells how many questions it takes to order two settings, and how many a
planned comparison needs.

python -m flows.power experiment=quick_start
python -m flows.power experiment=quick_start 'power.effects=[2,5]' 'power.sizes=[100,500,3610]'
"""

from collections.abc import Sequence

from flows.project.cells import require_finished, resolve_cells
from flows.project.metrics import read_results
from flows.project.provenance import describe_provenance
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.report_folder import open_report_folder
from flows.tools.summary import Summary
from winnow.artifacts.files import write_texts
from winnow.reports.power import build_power_report, choose_sizes


def power(jobs: Sequence[Settings]) -> Summary:
    """Write the page on the cells of all jobs; every cell must be finished."""
    settings, specs = jobs[0], resolve_cells(jobs)
    require_finished(specs)
    results = read_results(jobs, specs)
    sizes = sorted(
        set(settings.power.sizes or choose_sizes(max(result.num_questions for result in results)))
    )
    provenance = describe_provenance(settings, specs)
    page = build_power_report(
        f"Winnow: power of {settings.sweep.name}",
        results,
        provenance,
        settings.report.seed,
        sizes,
        list(settings.power.effects),
    )
    out = open_report_folder(settings)
    write_texts(out, {"power.html": page.render_html(), "power.md": page.render_markdown()})
    rows = (
        [dict(zip(page.tables[0].columns, row, strict=True)) for row in page.tables[0].rows]
        if page.tables
        else []
    )
    return Summary(page.title, rows, "\n".join([*page.notes, f"Page: {out / 'power.html'}"]))


STAGE = Stage(power, grid=True, seeds="each", last_sweep="used")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
