"""The page of some small cells, for tests in a browser."""

import pytest

from tests.reports.page.page_browser import Open, build_page, open_page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Opens a view of the page, and returns its elements as text after the script has run."""
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "index.html"
    file.write_text(build_page().render(), encoding="utf-8")

    def open_view(**state: str) -> str:
        return open_page(file, **state)

    return open_view
