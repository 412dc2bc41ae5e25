"""The report of the benchmarks: JSON, a Markdown table and SVG charts from the rows that the programs wrote."""
import html
import json
import math
import pathlib
import re

ROW_KEYS = ("problem", "shape", "threads", "isa", "unit", "ours", "peers", "ratio", "floor", "goal")
PEER_KEYS = ("name", "version", "isa", "value")


class CannotRun(Exception):
    """Why a problem cannot run on this machine, whatever is built."""


def row(problem, shape, unit, ours, peers=(), floor=None, goal=None, note=None, threads=1, median=None, isa=None):
    """A row of what is better where it is less."""
    values = [p["value"] for p in peers if p["value"]]
    return {"problem": problem, "shape": shape, "threads": threads, "isa": isa, "unit": unit, "ours": ours,
            "peers": list(peers), "ratio": min(values) / ours if values and ours else None, "floor": floor,
            "goal": goal, "details": {"note": note, "median": median}}


def peer(name, version, value, median=None):
    """A peer of a row; absent without a value."""
    return {"name": name, "version": version if value is not None else "absent", "isa": None, "value": value,
            "median": median}


def geomean(rows, floor=None, goal=None):
    """The geometric means of rows with the same peers: of times, and of the ratio of each row to its own best peer."""
    def over(values):
        return None if None in values or not values else math.exp(sum(map(math.log, values)) / len(values))

    first = rows[0]
    peers = [peer(p["name"], p["version"], over([r["peers"][k]["value"] for r in rows])) for k, p in enumerate(first["peers"])]
    mean = row(first["problem"], "geomean", first["unit"], over([r["ours"] for r in rows]), peers, floor, goal,
               threads=first["threads"], isa=first["isa"])
    mean["ratio"] = over([r["ratio"] for r in rows if r["ratio"]])
    return mean


def number_in(problem):
    """The number that the name of a problem begins with in results.json."""
    return int(re.match(r"\d+", problem).group())


def number_of(row):
    """The number of a row's problem, for sorting."""
    return number_in(row["problem"])


def title(problem):
    """A problem as it is shown: "1 sgemm avx512" is "sgemm avx512 (problem 1)"."""
    number, name = problem.split(" ", 1)
    return f"{name} (problem {number})"


def meets(row, sentence):
    """Whether a row fulfils a sentence like "ratio >= 0.97"; None if it cannot be said."""
    match = re.fullmatch(r"(ratio|ours) (>=|<=|>|<|=) ([0-9.]+)", sentence or "")
    if not match or row[match[1]] is None:
        return None
    left, right = row[match[1]], float(match[3])
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right,
            "=": left == right}[match[2]]


def short(value):
    """A number with as many digits as are worth reading."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) >= 1e7:
        return f"{value:.2e}"
    digits = max(0, 3 - int(math.floor(math.log10(abs(value)))) - 1)
    return f"{value:,.{min(digits, 4)}f}"


def verdict(row):
    """What a row says about its floor and goal."""
    words = []
    for name in ("floor", "goal"):
        result = meets(row, row[name])
        if row[name]:
            state = {True: "met", False: "**missed**" if name == "floor" else "open", None: "not measured"}[result]
            words.append(f"{name} {row[name]}: {state}")
    return "; ".join(words)


def markdown(machine, date, rows):
    lines = [f"# Benchmarks, {date}", "", machine, "",
             "Written by `./bootstrap bench`; `../README.md` says how to read it.  Times are the least of many, "
             "medians in brackets; ratio = best peer / ours (for rates ours / best peer): above 1 ours is better.",
             ""]
    problem = None
    for row in rows:
        if row["problem"] != problem:
            problem = row["problem"]
            peers = [peer["name"] for peer in row["peers"]]
            lines += ["", f"## {title(problem)}", ""]
            chosen = [f"{p['name']} {p['version']}" + (f" ({p['isa']})" if p["isa"] else "") for p in row["peers"]]
            if chosen:
                lines += ["Peers: " + ", ".join(chosen) + ".", ""]
            lines.append("| shape | unit | ours | " + "".join(f"{name} | " for name in peers) +
                         "ratio | of FMA peak | probe times | floor, goal |")
            lines.append("|---|---|" + "---|" * (len(peers) + 5))
        details = row.get("details") or {}

        def with_median(value, median):
            return short(value) + (f" ({short(median)})" if median is not None else "")

        cells = [row["shape"] + (f", {row['threads']} threads" if row["threads"] > 1 else ""), row["unit"],
                 with_median(row["ours"], details.get("median"))]
        cells += ["absent" if p["value"] is None else with_median(p["value"], p.get("median")) for p in row["peers"]]
        share = details.get("share_of_fma_peak")
        cells += [f"{row['ratio']:.2f}" if row["ratio"] is not None else "-", f"{100 * share:.0f} %" if share else "",
                  short(details["probe_times"]) if details.get("probe_times") else "",
                  verdict(row) + (f" ({details['note']})" if details.get("note") else "")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


COLORS = ("#1b6ca8", "#d1495b", "#edae49", "#66a182", "#8d6a9f", "#8f8f8f")


def chart(problem, rows):
    """Bars of each contender's speed as a multiple of the best peer's, one group per shape; longer is faster."""
    if rows[0]["unit"] == "ULP":
        return None
    names = ["lamina"] + [p["name"] for p in rows[0]["peers"]]
    bar, gap, left, width, top = 11, 12, 260, 460, 58
    groups = []
    for row in rows:
        values = [row["ours"]] + [p["value"] for p in row["peers"]]
        present = [v for v in values[1:] if v]
        if not present or not row["ours"]:
            continue
        best = min(present)
        speed = [best / v if v else None for v in values]
        if row["unit"].endswith("/s"):
            best = max(present)
            speed = [v / best if v else None for v in values]
        groups.append((row["shape"], speed))
    if not groups:
        return None
    largest = max(v for _, values in groups for v in values if v)
    scale = width / max(1.2, largest * 1.08)
    height = top + len(groups) * (len(names) * bar + gap) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{height}" '
           f'font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20" font-size="15">{html.escape(title(problem))}: speed, best peer = 1 (longer is faster)</text>']
    for i, name in enumerate(names):
        x = 10 + i * 118
        out.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{COLORS[i % len(COLORS)]}"/>'
                   f'<text x="{x + 14}" y="41">{html.escape(name)}</text>')
    y = top
    for shape, values in groups:
        out.append(f'<text x="{left - 8}" y="{y + len(names) * bar / 2 + 4:.0f}" text-anchor="end">'
                   f'{html.escape(shape if len(shape) < 44 else shape[:42] + "...")}</text>')
        for i, value in enumerate(values):
            if value:
                out.append(f'<rect x="{left}" y="{y + i * bar}" width="{value * scale:.1f}" height="{bar - 2}" '
                           f'fill="{COLORS[i % len(COLORS)]}"/><text x="{left + value * scale + 4:.1f}" '
                           f'y="{y + i * bar + 8}" font-size="9">{value:.2f}</text>')
            else:
                out.append(f'<text x="{left + 4}" y="{y + i * bar + 8}" font-size="9" fill="#888">absent</text>')
        y += len(names) * bar + gap
    out.append(f'<line x1="{left + scale:.1f}" y1="{top - 6}" x2="{left + scale:.1f}" y2="{y}" stroke="#444" '
               'stroke-dasharray="3 3"/></svg>')
    return "\n".join(out) + "\n"


def bare(row):
    """A row without its details, as results.json has it."""
    one = {key: row[key] for key in ROW_KEYS}
    one["peers"] = [{key: peer[key] for key in PEER_KEYS} for peer in row["peers"]]
    return one


def read(folder):
    """The rows of a report, each with the machine that it was measured on."""
    path = pathlib.Path(folder) / "details.json"
    if not path.exists():
        return []
    content = json.loads(path.read_text())
    return [{"machine": content["machine"], **row} for row in content["rows"]]


def machines(rows):
    """The machine of most rows, and the machines of problems that were measured elsewhere, in words."""
    problems = {}
    for row in rows:
        problems.setdefault(row["machine"], []).append(row["problem"])
    first, *others = sorted(problems, key=lambda machine: -len(set(map(number_in, problems[machine]))))
    return "; ".join([first] + [f"{', '.join(title(one) for one in dict.fromkeys(problems[machine]))}: {machine}"
                                for machine in others])


def write(folder, date, rows):
    """results.json has the bare rows; details.json the same with machines, medians, probes and shares of the peak."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = sorted(rows, key=number_of)  # stable: rows of one problem stay in the order of their program
    machine = machines(rows)
    for name, content in (("results.json", [bare(row) for row in rows]), ("details.json", rows)):
        text = json.dumps({"machine": machine, "date": date, "rows": content}, indent=1)
        (folder / name).write_text(text + "\n")
    (folder / "results.md").write_text(markdown(machine, date, rows))
    for old in folder.glob("*.svg"):
        old.unlink()
    problems = dict.fromkeys(row["problem"] for row in rows)
    for problem in problems:
        picture = chart(problem, [row for row in rows if row["problem"] == problem])
        if picture:
            name = re.sub(r"[^a-z0-9]+", "_", problem.split(" ", 1)[1].lower()).strip("_")
            (folder / f"{name}.svg").write_text(picture)
