"""Document libraries in memory, scripted models, and generated PDF and DOCX files."""

import io
import zipfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

import numpy as np
import pypdf
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from tests.store.vectors.vector_stores import open_store
from toolgate.base.plugins import make
from toolgate.documents import DocumentLibrary, NewDocument
from toolgate.errors import EmbedderError, SettingError
from toolgate.models.embedders import Embedder, Reads, TextKind, Vectors
from toolgate.models.rerankers import Reranker
from toolgate.prompts import fill
from toolgate.settings import DocumentSettings
from toolgate.store import Store
from toolgate.store.vectors import VectorStore
from toolgate.types import PluginSpec


class Asked:
    """A chat model that says what it is told, and keeps what it was asked."""

    def __init__(self, **answers: str | Exception) -> None:
        self.answers = answers
        self.prompts: list[tuple[str, str]] = []
        self.limits: list[int] = []

    async def __call__(
        self,
        prompt: str,
        *,
        purpose: Literal["rephrase", "grade", "select"],
        max_tokens: int,
        timeout_s: float,
    ) -> str:
        self.prompts.append((purpose, prompt))
        self.limits.append(max_tokens)
        assert timeout_s > 0
        answer = self.answers[purpose]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def purposes(self) -> list[str]:
        return [purpose for purpose, _ in self.prompts]


async def rendered(name: str, values: Mapping[str, str], /) -> str:
    """Prompts that show their name and their fields."""
    return "\n".join([name, *(f"{key}={value}" for key, value in values.items())])


async def shipped(name: str, values: Mapping[str, str], /) -> str:
    """The texts that ship."""
    from toolgate.prompts.prompts import _shipped

    return fill(_shipped()[name].text, values)


class Letters:
    """An embedder whose vectors count letters; each name is a model of its own."""

    def __init__(self, name: str = "letters", *, dim: int = 26) -> None:
        self.name = name
        self._dim = dim
        self.asked: list[str] = []
        self.fails = False

    @property
    def identity(self) -> str:
        return f"{self.name}-{self._dim}"

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def reads(self) -> Reads:
        return "english"

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if kind == "query":
            self.asked += texts
        if self.fails:
            raise EmbedderError(f"{self.name} failed.")
        rows = np.zeros((len(texts), self._dim), np.float32)
        for at, text in enumerate(texts):
            for char in text.lower():
                if char.isascii() and char.isalpha():
                    rows[at, (ord(char) - 97) % self._dim] += 1
            rows[at] /= max(float(np.linalg.norm(rows[at])), 1e-9)
        return rows


class Bench:
    """Embedders and places by name, as `app` would make them from settings."""

    def __init__(self, store: Store, place: str, embedders: Mapping[str, Embedder]) -> None:
        self.embedders = dict(embedders)
        self.store = store
        self._place = place
        self._vectors: VectorStore | None = None
        self.reranks_with: Reranker | None = None

    def embedder(self, name: str) -> Embedder:
        if name not in self.embedders:
            raise SettingError(f"There is no embedding model {name!r}.")
        return self.embedders[name]

    def vectors(self, place: str) -> VectorStore:
        if self._vectors is None:
            assert place == self._place
            spec = PluginSpec(name=place, setting="documents.place", options={})
            self._vectors = make("vectors", VectorStore, spec, {"store": self.store})
        return self._vectors

    def reranker(self) -> Reranker | None:
        return self.reranks_with

    def place_of(self, place: str) -> str:
        return self._place if place == "auto" else place


@asynccontextmanager
async def library_in(
    url: str = "sqlite://", *, embedders: Mapping[str, Embedder] | None = None, **settings: object
) -> AsyncGenerator[tuple[DocumentLibrary, Bench]]:
    """A library over a store; its model is `letters` unless a collection has another."""
    async with open_store(url) as store:
        bench = Bench(store, store.vector_backend, embedders or {"letters": Letters()})
        chosen = replace(DocumentSettings(model="letters"), **settings)
        yield DocumentLibrary(store.documents, bench, settings=lambda: chosen), bench


def doc(source: str, text: str, **fields: object) -> NewDocument:
    """A document whose hash is its text."""
    return replace(NewDocument(source=source, text=text, sha256=f"{hash(text):x}"), **fields)


def pdf(*pages: str, title: str = "", outline: Sequence[tuple[str, int]] = (), **kw: str) -> bytes:
    """A PDF with a line of text for each line of each page.

    Args:
        pages: Their texts.
        title: As it calls itself.
        outline: Titles and page numbers, from 0 on.
        kw: `user_password` encrypts it.
    """
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(width=595, height=842)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font)})}
        )
        lines = [line.replace("(", "\\(").replace(")", "\\)") for line in text.splitlines()]
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 14 TL 72 770 Td {shown} ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    for name, number in outline:
        writer.add_outline_item(title=name, page_number=number)
    if title:
        writer.add_metadata({"/Title": title})
    if kw:
        writer.encrypt(kw["user_password"], algorithm="AES-256")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def docx(*paragraphs: tuple[str, str]) -> bytes:
    """A Word document of paragraphs: style (`Heading1`, or empty) and text."""
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(
        "<w:p>"
        + (f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else "")
        + f"<w:r><w:t>{text}</w:t></w:r></w:p>"
        for style, text in paragraphs
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/>'
        "</w:style>"
        for n in (1, 2, 3)
    )
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types">'
            '<Default Extension="rels"'
            ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{kind}.document.main+xml"/>'
            f'<Override PartName="/word/styles.xml" ContentType="{kind}.styles+xml"/></Types>',
        )
        parts.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1"'
            f' Type="{office}/officeDocument" Target="word/document.xml"/></Relationships>',
        )
        parts.writestr(
            "word/_rels/document.xml.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1"'
            f' Type="{office}/styles" Target="styles.xml"/></Relationships>',
        )
        parts.writestr("word/styles.xml", f'<w:styles xmlns:w="{word}">{styles}</w:styles>')
        parts.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
        )
    return target.getvalue()
