"""What mkdocs does besides its plugins: pages from elsewhere in the repository, and links.

The site shows some files from outside of docs/. Links between all of them are written as GitHub
needs them, relative to the file, and are rewritten here.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.redisson_py")

ROOT = Path(__file__).parents[2]

#: Files outside of docs/, and the pages that they are on the site.
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/results/baseline-growth.png": "images/performance-growth.png",
    "benchmarks/results/baseline.json": "baseline.json",
    "benchmarks/results/crowd-before-clients.png": "images/performance-clients-before.png",
    "benchmarks/results/crowd-before.json": "crowd-before.json",
    "benchmarks/results/crowd-clients.png": "images/performance-clients.png",
    "benchmarks/results/crowd.json": "crowd.json",
    "lua/README.md": "protocol.md",
}
_BACK = {page: path for path, page in ELSEWHERE.items()}

_NAMED = re.compile(r"docs/(?P<page>[\w-]+)\.md")
_FONTS = re.compile(r"@font-face\s*\{[^}]*\}")
_BLOCK = re.compile(r"(^[ ]*```.*?^[ ]*```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Find the recipes from wherever mkdocs is started; show the security policy, if any."""
    if (ROOT / "SECURITY.md").exists() and config.nav:
        config.nav[-1]["About"].append({"Security": "security.md"})
    config.mdx_configs["pymdownx.snippets"]["base_path"] = [str(ROOT / "examples" / "recipes")]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from outside of docs/."""
    for path, page in ELSEWHERE.items():
        if (ROOT / path).exists():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Take out of the pictures what names a font of another host, as Rich's do."""
    for path in Path(config.site_dir, "images").glob("*.svg"):
        text = path.read_text("utf-8")
        path.write_text(_FONTS.sub("", text), "utf-8")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page, but not what looks like links in its code."""
    here = page.file.src_uri
    source = _BACK.get(here, f"docs/{here}")
    # Every second part is a block of code. Links may go over the end of a line.
    parts = _BLOCK.split(markdown)
    parts[::2] = [
        _LINK.sub(lambda found: _on_site(found, source, here), each) for each in parts[::2]
    ]
    return "".join(parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links of the pages that docstrings name as files."""
    if not page.file.src_uri.startswith("reference/"):
        return html
    return _NAMED.sub(r'<a href="../\g<page>.html">\g<page></a>', html)


def _on_site(found: re.Match[str], source: str, here: str) -> str:
    """Return a link as the site needs it; what the site does not show becomes plain text."""
    target = found["target"]
    if "://" in target or target.startswith("mailto:"):
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path.startswith("docs/"):
        page = path.removeprefix("docs/")
    elif path in ELSEWHERE:
        page = ELSEWHERE[path]
    elif (ROOT / path).exists():
        return found["text"]
    else:
        log.warning("%s links to %s, which does not exist", source, target)
        return found[0]
    there = posixpath.relpath(page, posixpath.dirname(here) or ".")
    return f"{found['image']}[{found['text']}]({there}{found['anchor'] or ''})"
