#!/usr/bin/env python3
"""check.py PROGRAM DIRECTORY: the sample detect finds squares in pictures, and reports an error for anything else."""
import http.client
import json
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib

PROGRAM, WORK = sys.argv[1], pathlib.Path(sys.argv[2])


def png(rows):
    """A gray picture from rows of bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows))) +
            chunk(b"IEND", b""))


def picture(squares):
    """A gray picture with squares of 8 pixels: left, top and brightness."""
    rows = [[100] * 64 for _ in range(64)]
    for left, top, light in squares:
        for y in range(top, top + 8):
            rows[y][left:left + 8] = [light] * 8
    return png(rows)


def refused(*arguments):
    ended = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and not ended.stdout, ended
    return ended.stderr


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
MODEL = str(WORK / "squares.onnx")
assert "no model is given" in refused()
assert "--port: expected a number from 0 to 65535" in refused(MODEL, "--port", "70000")
assert "cannot be opened" in refused(MODEL)
(WORK / "torn.onnx").write_bytes(b"\x08\x08\x3a\xff\xff\x7f")
assert "torn.onnx: " in refused(str(WORK / "torn.onnx"))
subprocess.run([PROGRAM, "--write", MODEL], check=True, timeout=60)
assert b"NonMaxSuppression" in pathlib.Path(MODEL).read_bytes()

server = subprocess.Popen([PROGRAM, MODEL, "--port", "0", "--threads", "3"], stdout=subprocess.PIPE, text=True)
try:
    said = server.stdout.readline()
    assert said.endswith(", pictures of 64 x 64\n"), said
    port = int(said.split(":")[2].split(",")[0])

    def ask(connection, body, path="/detect", method="POST"):
        connection.request(method, path, body)
        r = connection.getresponse()
        text = r.read()
        assert text.count(b"\n") == 1, text
        return r.status, json.loads(text)

    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    status, found = ask(c, picture([(10, 20, 250), (40, 12, 0), (30, 44, 240)]))
    assert status == 200 and set(found) == {"boxes"}, found
    assert sorted((b["label"], b["box"]) for b in found["boxes"]) == [
        (0, [10, 20, 18, 28]), (0, [30, 44, 38, 52]), (1, [40, 12, 48, 20])], found
    assert all(0.3 < b["score"] < 1 for b in found["boxes"]) and found["boxes"][0]["score"] >= found["boxes"][1]["score"], found
    assert ask(c, picture([])) == (200, {"boxes": []})
    assert ask(c, None, "/healthz", "GET") == (200, {"status": "ok"})

    # On the same connection: bytes that are not a picture, or a picture of another size.
    whole = picture([(8, 8, 255)])
    small = png([[0] * 63] * 64)
    for wrong, why in ((b"no picture", "not a readable PNG"), (b"", "not a readable PNG"), (whole[:60], "not a readable PNG"),
                       (small, "the picture is 63 x 64 pixels; expected 64 x 64"), (b"\xff" * 1000, "not a readable PNG"),
                       (whole[:16] + struct.pack(">II", 2 ** 31 - 1, 2 ** 31 - 1) + whole[24:], "")):
        status, found = ask(c, wrong)
        assert status == 400 and list(found) == ["error"] and why in found["error"] and "\n" not in found["error"], (status, found)
    assert ask(c, whole, "/nowhere")[0] == 404
    assert ask(c, None, "/detect", "GET")[0] == 405
    assert ask(http.client.HTTPConnection("127.0.0.1", port, timeout=30), b"x" * 2000000)[0] == 413
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"\0\1\2\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 400")
    assert len(ask(c, whole)[1]["boxes"]) == 1
    c.close()

    # Concurrent clients get the boxes of their own pictures.
    wrong = []

    def client(k):
        with_one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for i in range(20):
            left, top = 2 + 2 * ((k * 7 + i) % 26), 2 + 2 * ((k * 3 + i * 5) % 26)
            status, found = ask(with_one, picture([(left, top, 255)]))
            boxes = [b["box"] for b in found.get("boxes", [])]
            if status != 200 or boxes != [[left, top, left + 8, top + 8]]:
                wrong.append((k, i, found))
        with_one.close()

    clients = [threading.Thread(target=client, args=(k,)) for k in range(6)]
    for t in clients:
        t.start()
    for t in clients:
        t.join()
    assert not wrong, wrong[:3]
    assert "in use" in refused(MODEL, "--port", str(port))
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
finally:
    server.kill()
print("good")
