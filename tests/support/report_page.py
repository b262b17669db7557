"""Parts of a written report."""

import html
import re
from pathlib import Path


def read(path: str | None = None) -> str:
    """Return a page; None: the newest one below the current folder."""
    pages = [Path(path)] if path else Path().rglob("report*.html")
    return max(pages, key=lambda page: page.stat().st_mtime_ns).read_text(encoding="utf-8")


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


def charts(page: str) -> list[tuple[str, list[str]]]:
    """Return the title of each chart and the texts in it."""
    figures = section(page, "curves").split("<figure>")[1:]
    titles = [re.findall("<figcaption>(.*?)</figcaption>", figure)[0] for figure in figures]
    texts = [[html.unescape(text) for text in re.findall("<text .*?>(.*?)</text>", figure)] for figure in figures]
    return list(zip(titles, texts, strict=True))


def legends(page: str) -> list[list[str]]:
    """Return the labels of each legend; small charts have none."""
    found = [[text for text in texts if re.search(r"\(\d+ seeds?\)$", text)] for _, texts in charts(page)]
    return [labels for labels in found if labels]
