"""The picture of the page: what a browser shows, whole."""

import shutil

import pytest
from experiments.report_picture import take

pytestmark = pytest.mark.gate


def test_a_picture_of_the_whole_part_is_taken(tmp_path):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on the path")
    pytest.importorskip("playwright.sync_api")
    (tmp_path / "page.html").write_text('<section class="hero">Yes</section>')
    take(tmp_path / "page.html", tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
