"""Tables of a report as LaTeX, for the package booktabs."""

from collections.abc import Iterable

from winnow.reports.tables import TableView

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    """Return a text in which the characters that LaTeX treats specially are escaped."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def format_latex_table(table: TableView) -> str:
    """Return a LaTeX `table` in booktabs style, the first column left-aligned, the others right."""

    def format_row(values: Iterable[object]) -> str:
        texts = (escape_latex(" ".join(str(value).split())) for value in values)
        return f"    {' & '.join(texts)} \\\\"

    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape_latex(f'{table.title}. {table.caption}')}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"    \toprule",
            format_row(table.columns),
            r"    \midrule",
            *map(format_row, table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )
