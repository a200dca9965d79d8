"""What mkdocs does beside building docs: it adds pages from the root of the repository, and mends links between these and
docs. A link to a source becomes its text, because sources are no part of the site; that it leads somewhere is checked by
`cargo test -p byname --test references`.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
# Pages from the root, and their names in the site. A README.md would be the front page there.
PAGES = {
    "README.md": "about.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
DEFINITION = re.compile(r"^\[([^\]^]+)\]: (\S+)$", re.MULTILINE)


def on_files(files, config):
    for name, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def target(link: str, page: str) -> str | None:
    """A link of a page as one within the site. None: it leads to a source."""
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    path, hash_sign, heading = link.partition("#")
    # Where the page and its target are in the repository.
    home = "" if page in PAGES.values() else posixpath.dirname(f"docs/{page}")
    place = posixpath.normpath(posixpath.join(home, path))
    if place.startswith("docs/records"):
        return None
    within = place.removeprefix("docs/") if place.startswith("docs/") else PAGES.get(place)
    if within is None:
        return None
    return posixpath.relpath(within, posixpath.dirname(page) or ".") + hash_sign + heading


def block(code: str) -> str:
    """A block of Rust without what only rustdoc reads: words after the language, and hidden lines."""
    if not code.startswith("```rust"):
        return code
    first, *lines = code.split("\n")
    return "\n".join([first.split(",")[0], *(line for line in lines if not line.startswith("# "))])


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri

    def mend(match: re.Match) -> str:
        picture, text, link = match.groups()
        to = target(link, name)
        return f"{picture}[{text}]({to})" if to is not None else text

    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    mended = "".join(block(part) if part.lstrip().startswith("```") else LINK.sub(mend, part) for part in parts)
    return DEFINITION.sub(lambda match: match.group(0) if target(match.group(2), name) else "", mended)
