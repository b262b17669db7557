"""Parts of a written report."""

import json
import re
from pathlib import Path
from typing import Any


def read(path: str | Path = "logs/report.html") -> str:
    return Path(path).read_text(encoding="utf-8")


def chart_data(page: str) -> list[dict[str, Any]]:
    """Return the data that page.js draws, without the small charts."""
    return [chart for chart in all_charts(page) if "legend" not in chart]


def all_charts(page: str) -> list[dict[str, Any]]:
    """Return the data that page.js draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]
