#!/usr/bin/env python3
"""Checks the table of layers in docs/layers.md, which is generated from the interfaces in `modules/nets/layer`.

usage: layers.py MODULES FILE [--write]     --write updates the table in FILE; without it, fails if the table is outdated, or if
                                            a document beside FILE names an option that its layer does not have
"""
import pathlib
import re
import sys

ROOMS = ("linear", "activation", "normalize", "regular", "pool", "attention", "recurrent", "rearrange", "arithmetic", "combine",
         "index", "loss", "source")
BEGIN, END = "<!-- made by tests/readme/layers.py -->\n", "<!-- end -->\n"
DECLARATION = re.compile(r"^export (?:template <(?P<parameters>.*)>\s+)?struct (?P<name>\w+)(?: : (?P<base>\w+))? \{\n(?P<body>.*?)^\};",
                         re.M | re.S)
MEMBER = re.compile(r"^  (?!static|constexpr|template|using|private|public|friend|return|struct|enum)"
                    r"(?P<type>[\w:]+(?:<[^;()]*?>)?) (?P<names>\w+(?:\s*[={,][^;\n]*)?);", re.M)


def split_outside(text):
    """Parts between commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "({[<") - (c in ")}]>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def options(body):
    found = []
    body = body.split("\n private:", 1)[0]
    for member in MEMBER.finditer(body):
        kind = member["type"].replace("std::int64_t", "int64").replace("std::", "")
        for one in split_outside(member["names"]):
            name, value = re.fullmatch(r"(\w+)\s*(?:= ?)?(.*)", one, re.S).groups()
            if not name.endswith("_"):
                found.append(f"`{kind} {name}" + (f" = {' '.join(value.split())}" if value and value != "{}" else "") + "`")
    return found


def ports(body, base, bases):
    text = next((part for part in re.findall(r"inputs\(\) (?:const )?\{(.*?)\}\n", body + "\n", re.S)), None)
    if text is None and base:
        return ports(bases[base], None, bases)
    sets = re.findall(r"port_names<([^>]*)>", text or "")
    if not sets:
        return "" if text is None else "those of its parts" if "(" in text else "none"
    return max(sets, key=len).replace('"', "`")


def first_sentence(doc):
    text = " ".join(line[3:].strip() for line in doc.strip().splitlines())
    return re.split(r"(?<=[.:]) +(?=Shapes:|Source:|Numerics:|Errors:|`)|(?<=\.) +(?=[A-Z])", text)[0].replace("|", r"\|")


def rows(source):
    bases = {m[1]: m[2] for m in re.finditer(r"^struct (\w+) \{\n(.*?)^\};", source, re.M | re.S)}
    doc = ""
    for match in DECLARATION.finditer(source):
        before = re.search(r"((?:^///[^\n]*\n)+)\Z", source[:match.start()], re.M)
        doc = first_sentence(before[1]) if before else doc
        body = match["body"]
        if not re.search(r"\b(forward|forward_ports)\(", body):
            continue
        name = match["name"] + ("<...>" if match["parameters"] else "")
        yield f"| `{name}` | {doc} | {ports(body, match['base'], bases)} | {', '.join(options(body))} |"


def table(modules):
    folder, lines = pathlib.Path(modules) / "nets" / "layer", []
    rooms = {path.stem for path in folder.glob("*.cppm")} - {"layer"}
    if rooms != set(ROOMS):
        sys.exit(f"rooms of layers: {sorted(rooms ^ set(ROOMS))} are not those that layers.py lists")
    for room in ROOMS:
        source = (folder / f"{room}.cppm").read_text()
        made = list(rows(source))
        if made:
            what = re.match(r"// (.*?)(?:[.:;]\s|\n)", source)[1]
            lines += ["", f"## {what}", "", "| layer | what it is | inputs | options |", "|---|---|---|---|", *made]
    return "\n".join(lines[1:]) + "\n"


def unknown_options(documents, made):
    """Uses such as `nn::conv2d{.kernel}` in a document whose option does not exist."""
    known = {}
    for row in re.finditer(r"^\| `(\w+)(?:<\.\.\.>)?` \|.*\| (.*) \|$", made, re.M):
        known[row[1]] = set(re.findall(r"`[\w:]+(?:<[^`]*?>)? (\w+)", row[2]))
    for document in documents:
        for call in re.finditer(r"\bnn::(\w+)\{([^{}]*)", document.read_text()):
            for option in re.findall(r"(?<![\w)])\.([a-z]\w*)", call[2]):
                if option not in known.get(call[1], ()):
                    yield f"{document}: nn::{call[1]}{{.{option}}}"


def main():
    modules, path = sys.argv[1], pathlib.Path(sys.argv[2])
    text = path.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    made = "\n" + table(modules) + "\n"
    if "--write" in sys.argv:
        path.write_text(text[:begin] + made + text[end:])
        return 0
    wrong = list(unknown_options([*path.parent.glob("*.md"), *path.parent.parent.glob("*.md")], made))
    faults = ["options that no layer has:", *wrong] if wrong else []
    if text[begin:end] != made:
        known = set(text[begin:end].splitlines())
        faults += [f"{path} does not tell what the layers are; tests/readme/layers.py modules docs/layers.md --write does.  "
                   "Lines that it lacks:", *(line for line in made.splitlines() if line not in known)]
    if faults:
        sys.exit("\n".join(faults))
    return 0


if __name__ == "__main__":
    sys.exit(main())
