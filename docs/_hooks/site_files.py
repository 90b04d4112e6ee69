"""Hook of MkDocs: the files of the site, under their paths in the repository.

These are README.md, every file in docs/ other than hooks and templates, and every file that one of
these pages links to. A linked source or config file becomes a page that shows it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# A link of Markdown to a file, with its path as group 1: no URL, which has a colon, and no anchor.
_LINK = re.compile(r"\]\(([^()#:\s]+)(?:#[^()\s]*)?\)")
_LANGUAGES = {".py": "python", ".yaml": "yaml"}


class SourcePage(File):
    """A page that shows a source file."""

    def is_documentation_page(self) -> bool:
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by those of the site, under their paths in the repository."""
    root = Path(config.config_file_path).parent
    docs = Path(config.docs_dir).relative_to(root).as_posix()
    ours = {file.src_uri for file in files if file.src_dir == config.docs_dir}
    paths = {f"{docs}/{path}" for path in ours if not _makes_the_site(path)}
    paths.add("README.md")
    # Add what a page links to, and what these pages link to in turn.
    pages = [path for path in paths if path.endswith(".md")]
    while pages:
        for path in _linked(root, pages.pop()):
            if path not in paths:
                paths.add(path)
                if path.endswith(".md"):
                    pages.append(path)
    files_of_theme = [file for file in files if file.src_uri not in ours]
    return Files(files_of_theme + [_file(path, docs, root, config) for path in sorted(paths)])


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Markdown of a page that shows a source file; None for other pages."""
    if not isinstance(page.file, SourcePage):
        return None
    path = page.file.src_uri
    language = _LANGUAGES.get(Path(path).suffix, "text")
    text = page.file.content_string.rstrip("\n")
    return f"---\nhide: [toc]\n---\n# `{path}`\n\n~~~~{language}\n{text}\n~~~~\n"


def on_post_build(config: MkDocsConfig) -> None:
    """Let the explorer link to the pages of the site, in place of the repository's Markdown."""
    page = Path(config.site_dir, "docs/explorer.html")
    text = page.read_text(encoding="utf-8").replace("../README.md", "../index.html")
    # Links to other pages of docs/: href="NAME.md" becomes href="NAME.html".
    page.write_text(re.sub(r'(href="\w+)\.md"', r'\1.html"', text), encoding="utf-8")


def _makes_the_site(path: str) -> bool:
    """Whether a file is a hook or a template, which makes pages and is no page itself."""
    return path.endswith((".py", ".jinja")) or "__pycache__" in path


def _linked(root: Path, page: str) -> Iterator[str]:
    """Paths in the repository of the files that a page links to."""
    for link in _LINK.findall((root / page).read_text(encoding="utf-8")):
        target = (root / page).parent.joinpath(link).resolve()
        if target.is_file() and target.is_relative_to(root):
            yield target.relative_to(root).as_posix()


def _file(path: str, docs: str, root: Path, config: MkDocsConfig) -> File:
    """A file of the site; a source or config file outside docs/ is shown as a page."""
    is_source = not path.startswith(f"{docs}/") and not path.endswith(".md")
    kind = SourcePage if is_source and Path(path).suffix in _LANGUAGES else File
    return kind(path, str(root), config.site_dir, config.use_directory_urls)
