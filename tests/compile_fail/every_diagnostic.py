#!/usr/bin/env python3
"""Fails if a message of a compile-time check is not expected by any snippet.

every_diagnostic.py <folder of modules> <folder of snippets>... [--reached-by-no-type <file>]

Messages are what the interfaces stream into a text (`why << "..." << n`), pass to `lacks(...)` or `refuse(...)`,
construct a text from, or give as the message of a static_assert.  A message is a sequence of string literals with anything
between them; it is expected if a line `// expect: ` or `// expect below: ` contains the literals in that order.  A literal
of less than two words continues another message and is not a message of its own.  The file lists the messages that no
program can cause at compile time, each with the reason: `message | reason`.
"""
import argparse
import pathlib
import re
import sys

LITERAL = r'"(?:[^"\\\n]|\\.)*"'
CHARACTER = r"'(?:[^'\\\n]|\\.)'"


def statements(source):
    """Pairs of a line number and the code of a statement without its comments."""
    found, start, line = [], 0, 1
    code = []
    for token in re.finditer(rf'//[^\n]*|/\*.*?\*/|{LITERAL}|{CHARACTER}|\n|.', source, re.S):
        text = token.group()
        if text.startswith(("//", "/*")):
            line += text.count("\n")
            continue
        if text in ";{}":
            found.append((start or line, "".join(code)))
            code, start = [], 0
        else:
            if not start and not text.isspace():
                start = line
            code.append(text)
        line += text.count("\n")
    return found


def split_outside(text, separators):
    """The parts of an expression between separators outside of brackets and literals."""
    parts, depth, last = [], 0, 0
    for token in re.finditer(rf'{LITERAL}|{CHARACTER}|<<|.', text, re.S):
        if token.group() in ("(", "["):
            depth += 1
        elif token.group() in (")", "]"):
            depth -= 1
            if depth < 0:    # the end of the enclosing expression
                return parts + [text[last:token.start()]]
        elif depth == 0 and token.group() in separators:
            parts.append(text[last:token.start()])
            last = token.end()
    return parts + [text[last:]]


def words_in(text):
    return len(re.findall(r"[A-Za-z]{2,}", text))


def literal(operand):
    """The text of adjacent string literals, or None for another operand."""
    if not re.fullmatch(rf'\s*{LITERAL}(\s*{LITERAL})*\s*', operand):
        return None
    return "".join(re.sub(r"\\(.)", r"\1", part[1:-1]) for part in re.findall(LITERAL, operand))


def spellings(operand):
    """The possible texts of an operand: a literal, alternatives that are messages, or None for anything."""
    said = literal(operand)
    if said is not None:
        return [said]
    inner = operand.strip()
    if inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1]
    parts = split_outside(inner, "?:")
    if len(parts) == 3:
        both = [literal(part) for part in parts[1:]]
        if all(one is not None and words_in(one) >= 3 for one in both):
            return both
    return [None]


STREAM = re.compile(r'(?:\bwhy|\bt|\bout|\bto|\btext|\babout\(\w+\)|\bin)\s*<<')
CALL = re.compile(r'(?:\blacks|\brefuse|\breturn text|\btext\s+\w+|static_assert)\s*\(')


def sentences(source):
    """Pairs of a line number and a message: its literals, with None for anything in between."""
    found = []
    for line, code in statements(source):
        if "raise(" in code:    # only at run time
            continue
        stream = STREAM.search(code)
        call = CALL.search(code)
        if stream:
            operands = split_outside(code[stream.end():], ["<<"])
        elif call:
            operands = None
            arguments = split_outside(code[call.end():], ",")
            found += [(line, [said]) for said in map(literal, arguments) if said is not None and words_in(said) >= 2]
        else:
            continue
        all_of_them = [[]] if operands else []
        for operand in operands or []:
            all_of_them = [before + [one] for before in all_of_them for one in spellings(operand)]
        for one in all_of_them:
            if sum(words_in(part) for part in one if part) >= 2:
                found.append((line, one))
    return found


def spelled(sentence):
    return re.sub(r"(\.\.\.)+", "...", "".join("..." if part is None else part for part in sentence)).strip()


def pattern(sentence):
    parts = ["" if part is None else part for part in sentence]
    parts[0], parts[-1] = parts[0].lstrip(), parts[-1].rstrip()
    return re.compile(".*".join(re.escape(part) for part in parts))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("modules", type=pathlib.Path)
    arguments.add_argument("snippets", type=pathlib.Path, nargs="+")
    arguments.add_argument("--reached-by-no-type", type=pathlib.Path)
    given = arguments.parse_args()

    expected = [re.sub(r"\\(.)", r"\1", line) for folder in given.snippets
                for file in sorted(folder.rglob("*.cpp")) if "harness" not in file.relative_to(folder).parts
                for line in re.findall(r"// expect(?: below)?: (.*)", file.read_text())]
    excused = {}
    if given.reached_by_no_type:
        for line in given.reached_by_no_type.read_text().splitlines():
            if line and not line.startswith("#"):
                sentence, _, reason = line.rpartition("|")
                excused[sentence.strip()] = reason.strip()

    faults, count, met = [], 0, set()
    for file in sorted(given.modules.rglob("*.cppm")):
        for line, sentence in sentences(file.read_text()):
            count += 1
            text = spelled(sentence)
            covered = any(pattern(sentence).search(one) for one in expected)
            if text in excused:
                met.add(text)
                if covered:
                    faults.append(f"{file}:{line}: a snippet expects `{text}`, which is excused")
                elif not excused[text]:
                    faults.append(f"{file}:{line}: `{text}` is excused without a reason")
            elif not covered:
                faults.append(f"{file}:{line}: no snippet expects `{text}`")
    faults += [f"{given.reached_by_no_type}: nothing says `{text}`" for text in excused if text not in met]
    if count == 0:
        faults.append(f"{given.modules}: no sentences found")
    print("\n".join(faults))
    print(f"{count} sentences, {len(expected)} expectations, {len(excused)} excused, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
