"""MkDocs hooks: pages made from files outside docs/, and links between those files and docs/."""

import os.path
import re
from pathlib import Path
from typing import Any

from config_reference import reference
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
FROM_ROOT = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
WIDE = ("index.md", "concepts.md", "benchmarks.md")
"""Pages shown without the navigation, because their tables need its width."""
ROLE = re.compile(r":\w+:<code>(?:~[\w.]*?)?(\w+(?:\.\w+)*)</code>")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages whose files are not in docs/."""
    for page, source in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "reference/config.md", content=reference()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links to the place of their page in the site; links to code become plain text."""
    if page.file.src_uri in WIDE:
        page.meta.setdefault("hide", ["navigation"])
    return LINK.sub(lambda link: rewrite(link, page.file.src_uri), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show the roles of docstrings, such as :class:`~rlher.HerReplayBuffer`, as code: ``HerReplayBuffer``."""
    return ROLE.sub(r"<code>\1</code>", html)


def rewrite(link: re.Match[str], page: str) -> str:
    """Return the link of ``page`` as it must be in the site."""
    image, text, href, anchor = link.groups(default="")
    source = FROM_ROOT.get(page, f"docs/{page}")
    target = os.path.normpath(os.path.join(os.path.dirname(source), href))
    pages = {file: name for name, file in FROM_ROOT.items()}
    if target.startswith("docs/"):
        pages[target] = target.removeprefix("docs/")
    if target not in pages:
        return text
    return f"{image}[{text}]({os.path.relpath(pages[target], os.path.dirname(page))}{anchor})"
