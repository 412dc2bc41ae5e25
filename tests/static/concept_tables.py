#!/usr/bin/env python3
"""Checks that each exported concept is tested with a type that satisfies it and a type that does not.

    concept_tables.py MODULES FOLDER     fails if FOLDER/concepts_*.cpp lack either test for a concept, and names the concept

A test is a line `static_assert(Concept<...>);` or `static_assert(!Concept<...>);`.
"""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "architecture"))
import exported_names  # noqa: E402


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("modules", type=pathlib.Path)
    arguments.add_argument("folder", type=pathlib.Path)
    given = arguments.parse_args()

    said = "".join(exported_names.without_text(file.read_text()) for file in given.modules.rglob("*.cppm"))
    concepts = set(re.findall(r"\bconcept\s+(\w+)", said))
    exported = {name.split("::")[-1] for name in exported_names.names_of(given.modules) if "detail::" not in name} & concepts
    tables = "".join(file.read_text() for file in sorted(given.folder.glob("concepts_*.cpp")))
    faults = 0
    for concept in sorted(exported):
        for sign, adjective in (("", "satisfies"), ("!", "does not satisfy")):
            if not re.search(rf"^static_assert\({sign}(?:\w+::)*{concept}<", tables, re.M):
                print(f"the table of {concept} has no line of what {adjective} it")
                faults += 1
    print(f"{len(exported)} concepts, {faults} lines missing")
    return 1 if faults or not exported else 0


if __name__ == "__main__":
    sys.exit(main())
