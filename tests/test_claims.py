"""The list of the papers' claims is complete, and each difference is stated where the list says."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS = {"RE-RAG": 24, "Post-Fusion as fallback": 12, "RAGE": 8, "CRAG": 12}
"""Number of claims of each paper, as they were counted in the papers."""


def read_claims(paper: str) -> list[tuple[str, str]]:
    """Return the claims of a paper with their verdicts."""
    section = (DOCS / "claims.md").read_text().split(f"## {paper}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section, flags=re.MULTILINE)
    return [(claim, verdict) for claim, verdict in rows if claim != "claim"]


def list_anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as they are in the site and on GitHub."""
    headings = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("paper", list(NUMBERS))
def test_every_claim_is_the_same_or_says_why_not_and_where(paper: str) -> None:
    """A verdict that is more than "same" links to the section that states the difference."""
    claims = read_claims(paper)
    assert len(claims) == NUMBERS[paper]
    for claim, verdict in claims:
        assert verdict.startswith(("same", "differs", "the slides contradict")), claim
        if "differs" in verdict:
            assert "because" in verdict, claim
        links = re.findall(r"\((\w+\.md)#([^)]+)\)", verdict)
        assert links or verdict == "same", claim
        for page, anchor in links:
            assert anchor in list_anchors(page), f"{claim}: {page}#{anchor}"


def test_the_rules_have_a_section_for_each_paper() -> None:
    """What a paper leaves open is one row there."""
    assert {
        "re-rag",
        "rage",
        "crag",
        "strategies",
        "placement-srcwinnowcontextsplacementpy",
    } <= list_anchors("rules.md")
