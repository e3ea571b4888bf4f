"""Tables as LaTeX."""

from winnow.reports.latex import escape_latex, format_latex_table
from winnow.reports.tables import TableView


def test_special_characters_are_escaped_once() -> None:
    """None of them ends a cell, starts a comment or a formula; what an escape contains is not
    escaped again.
    """
    assert escape_latex(r"50% of a_b & {c} #1 $2") == r"50\% of a\_b \& \{c\} \#1 \$2"
    assert escape_latex("\\^~<>|–") == (
        r"\textbackslash{}\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}"
        r"\textbar{}--"
    )


def test_a_row_is_one_line() -> None:
    """Whatever lines its texts have."""
    table = TableView("EM", "c.", ["text"], [["one\n\ntwo"]])
    assert r"    one two \\" in format_latex_table(table).splitlines()


def test_a_table_has_the_rules_of_booktabs() -> None:
    """One column on the left, the others on the right, one line per row."""
    table = TableView(
        "EM", "3 questions.", ["strategy", "k", "%Unk"], [["post_fusion", "5", "1.0 [0.2, 5.4]"]]
    )
    assert format_latex_table(table).splitlines() == [
        r"\begin{table}",
        r"  \centering",
        r"  \caption{EM. 3 questions.}",
        r"  \begin{tabular}{lrr}",
        r"    \toprule",
        r"    strategy & k & \%Unk \\",
        r"    \midrule",
        r"    post\_fusion & 5 & 1.0 [0.2, 5.4] \\",
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
