"""The types that the sources define, declare without a definition, and cast down to. Reads enough C++ for this tree."""
import re

BLANKED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
                     r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
KEY = r"(?:class|struct|union|enum(?:\s+class|\s+struct)?)"
DEFINED = re.compile(rf"\b{KEY}\s+(?:\[\[.*?\]\]\s*|alignas\([^()]*(?:\([^()]*\))?[^()]*\)\s*|[A-Z]+_\w+\s+)*"
                     r"([\w:]+)(?:\s+final)?\s*(?::(?!:)([^()=]*))?\s*$", re.DOTALL)
DECLARED = re.compile(rf"^\s*(friend\s+)?{KEY}\s+(?:\[\[.*?\]\]\s*)?([\w:]+)(?:\s*:\s*[\w:]+)?\s*$")
CAST = re.compile(r"\b(?:(?:static|dynamic)_cast<\s*(?:const\s+)?([\w:]+)(?:\s+const)?\s*[*&][^>]*>"
                  r"|(?:static|dynamic)_pointer_cast<\s*(?:const\s+)?([\w:]+)\s*>)")


class Definition:
    def __init__(self, file, scope, bases):
        self.file, self.scope, self.bases = file, scope, bases


class Source:
    """Of one file: the names that it declares and casts to, each with its scope and its line."""

    def __init__(self, file, text):
        self.file = file
        self.definitions = []  # (qualified name, Definition)
        self.declared = []  # (name, scope, line)
        self.casts = []
        text = BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
        open_scopes, start = [], 0  # (kind, names)
        for mark in re.finditer(r"[{};]", text):
            before, at = text[start:mark.start()], start
            start = mark.end()
            scope = [name for _, names in open_scopes for name in names]
            for cast in CAST.finditer(before):
                self.casts.append((cast.group(1) or cast.group(2), scope, 1 + text.count("\n", 0, at + cast.start())))
            if mark.group() == "}":
                open_scopes = open_scopes[:-1]
            elif mark.group() == "{":
                open_scopes.append(self.opened(before, scope))
            elif found := DECLARED.match(before):
                if found.group(1) or all(kind == "namespace" for kind, _ in open_scopes):
                    line = 1 + text.count("\n", 0, at + found.start(2))
                    self.declared.append((found.group(2), scope, line))

    def opened(self, before, scope):
        if found := NAMESPACE.search(before):
            return "namespace", [name for name in found.group(1).split("::") if name]
        if found := DEFINED.search(before):
            bases = re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", found.group(2) or "")
            bases = [base.split()[-1] for base in bases.split(",") if base.split()]
            names = found.group(1).split("::")
            self.definitions.append(("::".join(scope + names), Definition(self.file, scope, bases)))
            return "class", names
        return "other", []


class Tree:
    """All sources below some folders."""

    def __init__(self, root, folders, suffixes):
        self.sources = [
            Source(file.relative_to(root), file.read_text(encoding="utf-8"))
            for folder in folders for file in sorted((root / folder).rglob("*")) if file.suffix in suffixes
        ]
        self.definitions = {}
        for source in self.sources:
            for name, definition in source.definitions:
                self.definitions.setdefault(name, []).append(definition)

    def find(self, name, scope, file):
        """The definition that `name` means in `scope`; one of the same file first. None: it is no type of the tree."""
        for depth in range(len(scope), -1, -1):
            found = self.definitions.get("::".join([*scope[:depth], name]))
            if found:
                return next((each for each in found if each.file == file), found[0])
        return None

    def declarations(self):
        """Yields (source, line, name, file of the definition) of each declaration of a type of another file."""
        for source in self.sources:
            for name, scope, line in source.declared:
                definition = self.find(name, scope, source.file)
                if definition and definition.file != source.file:
                    yield source.file, line, name, definition.file

    def base_elsewhere(self, definition, folder):
        """The file of a base of this type, at any depth, that lies in another folder; None: there is none."""
        for base in definition.bases:
            below = self.find(base, definition.scope, definition.file)
            if below is None or below is definition:
                continue
            if below.file.parent != folder:
                return below.file
            found = self.base_elsewhere(below, folder)
            if found:
                return found
        return None

    def downcasts(self):
        """Yields (source, line, name, file of the type, file of its base) of each cast to a type with a base elsewhere."""
        for source in self.sources:
            for name, scope, line in source.casts:
                definition = self.find(name, scope, source.file)
                below = definition and self.base_elsewhere(definition, definition.file.parent)
                if below:
                    yield source.file, line, name, definition.file, below
