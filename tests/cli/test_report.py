"""``auucmax report``: the page and its numbers."""

import json
import re

from tests.cli.commands import run


def test_json_of_the_report_is_what_the_page_holds(files, tmp_path):
    found = run(f"report {files.model} -o {tmp_path}/r.html --json")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    (embedded,) = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert json.loads(embedded) == json.loads(found.stdout)
