"""Links of the pages lead somewhere: files, headings, and addresses that can be typed.

An anchor must be there both on the site (Python-Markdown's way to write headings) and where
the repository is read (GitHub's). Nobody outside is asked.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.docs.blocks import ROOT, all_blocks, name_of, pages, unfenced

LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +\{#([\w-]+)\})?$", re.MULTILINE)
REFERENCE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)  # mkdocstrings puts it there
CODE = re.compile(r"`[^`\n]*`")
ADDRESS = re.compile(r"\bhttps?://[^\s)>\"'`]+")
# Where packages and images come from is everybody's own affair: no page names such a host.
REGISTRY = re.compile(
    r"\b(?:[\w-]+\.)*(?:pypi\.org|pythonhosted\.org|anaconda\.(?:org|com)|download\.pytorch\.org|"
    r"npmjs\.(?:org|com)|docker\.io|docker\.com|ghcr\.io|quay\.io|gcr\.io|pkg\.dev|"
    r"crates\.io|debian\.org|ubuntu\.com)\b"
)


def links(text: str) -> Iterator[str]:
    """All that a page links to, but for what stands in code."""
    for found in LINK.finditer(CODE.sub("", unfenced(text))):
        yield found[1] or found[2]


def on_the_site(heading: str) -> str:
    """The anchor that Python-Markdown makes of a heading."""
    plain = re.sub(r"[^\w\s-]", "", _plain(heading)).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def in_the_repository(heading: str) -> str:
    """The anchor that GitHub makes of it."""
    return re.sub(r"[^\w\s-]", "", _plain(heading)).strip().lower().replace(" ", "-")


def _plain(heading: str) -> str:
    return (
        re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", heading).replace("`", "").replace("*", "")
    )


def anchors(text: str) -> set[str]:
    """What of a page can be linked to, wherever it is read."""
    found = HEADING.findall(unfenced(text))
    named = {own for _, own in found if own} | set(REFERENCE.findall(text))
    everywhere = {on_the_site(title) for title, _ in found} & {
        in_the_repository(title) for title, _ in found
    }
    return named | everywhere


def dead_links(page: Path, text: str) -> Iterator[str]:
    """Links of a page to files, or places in them, that are not there."""
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if place and not target.exists():
            yield link
        elif anchor and target.suffix == ".md":
            told = text if target == page else target.read_text(encoding="utf-8")
            if anchor not in anchors(told):
                yield link


def test_links_and_anchors_of_the_pages_lead_somewhere() -> None:
    dead = [
        f"{name_of(page)}: {link}"
        for page in pages()
        for link in dead_links(page, page.read_text(encoding="utf-8"))
    ]
    assert not dead, "\n".join(dead)


def test_a_dead_link_is_caught() -> None:
    page = ROOT / "docs" / "made-up.md"
    text = "# A `b`, *c*\n\n[x](#a-b-c) [y](#too) [z](dial.md) [w](dail.md#x) `[v](u)`\n"
    assert list(dead_links(page, text)) == ["#too", "dail.md#x"]
    assert list(dead_links(page, "[x](dial.md#no-such-heading)")) == [
        "dial.md#no-such-heading"
    ]


def test_links_to_pictures_of_the_site_are_those_of_the_page() -> None:
    """`picture.svg#only-dark` is the theme's: every such picture has its other half."""
    for page in pages():
        found = [
            link for link in links(page.read_text(encoding="utf-8")) if "#only-" in link
        ]
        dark = {link for link in found if link.endswith("#only-dark")}
        assert len(found) == 2 * len(dark), page.name


def test_addresses_outside_can_be_typed() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        outside = [link for link in links(text) if re.match(r"[a-z]+:", link)]
        for address in [*outside, *ADDRESS.findall(text)]:
            parts = urlsplit(address)
            assert parts.scheme in {"http", "https", "mailto"}, f"{page.name}: {address}"
            assert "." in parts.netloc or parts.scheme == "mailto", (
                f"{page.name}: {address}"
            )


def test_no_page_names_a_host_that_packages_come_from() -> None:
    found = [
        f"{name_of(page)}: {host}"
        for page in pages()
        for host in REGISTRY.findall(page.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)
    assert REGISTRY.search("pip install --index-url https://pypi.org/simple x")
    assert not REGISTRY.search("docker push registry.example/job:1")


def test_blocks_are_closed() -> None:
    """A fence that is never closed would make a block of the rest of the page."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        fences = re.findall(r"^ *```", text, re.MULTILINE)
        found = [block for block in all_blocks() if block.page == name_of(page)]
        assert len(fences) == 2 * len(found), page.name
