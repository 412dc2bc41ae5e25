#!/usr/bin/env python3
"""Lists the names that the module interfaces of a folder export.

    exported_names.py MODULES                     prints the names, one per line, with their namespaces
    exported_names.py MODULES --expect FILE       fails if they differ from the names in FILE, and prints the differences
    exported_names.py MODULES --max N             fails if there are N or more

Overloads of a function count as one name; members are not counted. Names that lamina.std re-exports from the standard
library are ignored.
"""
import argparse
import pathlib
import re
import sys

WORDS_BEFORE_A_NAME = {"struct", "class", "enum", "concept", "union"}


def without_text(source):
    """The source with comments, preprocessor lines, and the contents of strings removed."""
    source = re.sub(r'R"(\w*)\(.*?\)\1"', '""', source, flags=re.S)
    source = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
                    lambda m: '""' if m[0][0] == '"' else "' '" if m[0][0] == "'" else " ", source, flags=re.S)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", source, flags=re.M)


def tokens_of(source):
    return re.findall(r'operator""_\w+|operator""\s*\w+|operator\s*(?:\(\)|\[\]|[-+*/%^&|~!=<>]+)|\w+|::|""|[^\s\w]', source)


def skip_brackets(tokens, i, opening, closing):
    """The index after the bracket that closes the one at i."""
    depth = 0
    while i < len(tokens):
        depth += (tokens[i] == opening) - (tokens[i] == closing)
        i += 1
        if depth == 0:
            return i
    return i


def declared_name(tokens, i):
    """The name declared at i, and the index after its head; None for instantiations and the like."""
    is_alias = False
    name = None
    while i < len(tokens):
        t = tokens[i]
        if t == "template":
            if tokens[i + 1] != "<":
                return None, i  # an explicit instantiation
            i = skip_brackets(tokens, i + 1, "<", ">")
        elif t == "requires":
            i = skip_requirement(tokens, i + 1)
        elif t == "[" and tokens[i + 1] == "[":
            i = skip_brackets(tokens, i, "[", "]")
        elif t == "using":
            if tokens[i + 1] == "namespace":
                return None, i
            is_alias = True
            i += 1
        elif t in WORDS_BEFORE_A_NAME:
            i += 1
            while tokens[i] in ("class", "struct") or (tokens[i] == "[" and tokens[i + 1] == "["):
                i = skip_brackets(tokens, i, "[", "]") if tokens[i] == "[" else i + 1
            name, following = tokens[i], tokens[i + 1]
            if following in ("{", ":", ";", "final", "="):
                return name, i + 1
            if following == "<":  # a specialization declares no new name
                return None, i
            i += 1
        elif t.startswith("operator"):
            return re.sub(r"\s+", "", t), i + 1
        elif t == "(":
            return name, i
        elif t in ("=", ";", "{"):
            if is_alias and t == ";":
                return name, i
            return name, i
        elif t == "<" and name not in ("template",):
            i = skip_brackets(tokens, i, "<", ">")
        else:
            if re.match(r"[A-Za-z_]", t):
                name = t
            i += 1
    return None, i


def skip_requirement(tokens, i):
    """The index after a requires-clause: primary expressions joined by && and ||."""
    while True:
        while tokens[i] == "!":
            i += 1
        if tokens[i] == "(":
            i = skip_brackets(tokens, i, "(", ")")
        elif tokens[i] == "requires":
            i += 1
            if tokens[i] == "(":
                i = skip_brackets(tokens, i, "(", ")")
            i = skip_brackets(tokens, i, "{", "}")
        else:
            i += 1
            while tokens[i] in ("::", "<", "("):
                if tokens[i] == "::":
                    i += 2
                elif tokens[i] == "<":
                    i = skip_brackets(tokens, i, "<", ">")
                else:
                    i = skip_brackets(tokens, i, "(", ")")
        if tokens[i] == "&" and tokens[i + 1] == "&" or tokens[i] == "|" and tokens[i + 1] == "|":
            i += 2
        elif tokens[i] in ("&&", "||"):
            i += 1
        else:
            return i


def names_in(source):
    tokens = tokens_of(without_text(source))
    found = set()
    scopes = []  # for each open brace: the namespace that it opens, or None; whether its contents are exported
    i = 0
    while i < len(tokens):
        t = tokens[i]
        exported = bool(scopes) and scopes[-1][1]
        at_namespace = all(s[0] is not None for s in scopes)
        if not at_namespace:
            if t == "{":
                scopes.append((None, False))
            elif t == "}":
                scopes.pop()
            i += 1
            continue
        says_export = t == "export"
        if says_export:
            i += 1
            t = tokens[i]
            if t in ("module", "import"):
                i = tokens.index(";", i) + 1
                continue
        if t == "}":
            scopes.pop()
            i += 1
        elif t == "{":  # export { ... }
            scopes.append(("", True))
            i += 1
        elif t == "inline" and tokens[i + 1] == "namespace" or t == "namespace":
            i += 2 if t == "inline" else 1
            name = []
            while tokens[i] not in ("{", "=", ";"):
                name.append(tokens[i])
                i += 1
            if tokens[i] == "{":
                scopes.append(("".join(name) if name else "(unnamed)", exported or says_export))
            i += 1
        elif t in (";", "module", "import"):
            i = i + 1 if t == ";" else tokens.index(";", i) + 1
        else:
            name, i = declared_name(tokens, i)
            if name and (exported or says_export):
                found.add("::".join([s[0] for s in scopes if s[0]] + [name]))
            # to the end of the declaration
            depth = 0
            while i < len(tokens):
                t = tokens[i]
                i += 1
                if t in "({[":
                    depth += 1
                elif t in ")}]":
                    depth -= 1
                    if t == "}" and depth == 0 and tokens[i] != ";" and tokens[i] not in (",", ")", "&", "|", "}", "{") or depth < 0:
                        break
                    if t == "}" and depth == 0 and tokens[i] in ("}",):
                        break
                elif t == ";" and depth == 0:
                    break
    return found


def names_of(modules):
    names = set()
    for path in sorted(pathlib.Path(modules).rglob("*.cppm")):
        source = path.read_text()
        if re.search(r"^export module (?!lamina\.std\b)", source, flags=re.M):
            names |= names_in(source)
    return names


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("modules")
    arguments.add_argument("--expect")
    arguments.add_argument("--max", type=int)
    given = arguments.parse_args()
    names = names_of(given.modules)
    if not given.expect and given.max is None:
        print("\n".join(sorted(names)))
    status = 0
    if given.expect:
        expected = set(pathlib.Path(given.expect).read_text().split("\n")) - {""}
        for name in sorted(names - expected):
            print(f"exported, and not in {given.expect}: {name}")
        for name in sorted(expected - names):
            print(f"in {given.expect}, and not exported: {name}")
        status = names != expected
    if given.max is not None and len(names) >= given.max:
        print(f"{len(names)} names are exported; fewer than {given.max} are wanted")
        status = 1
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
