#!/usr/bin/env python3
"""check.py PART PROGRAM DIRECTORY: one part of the tests of the sample serve."""
import gzip
import http.client
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

PROGRAM, WORK = sys.argv[2], pathlib.Path(sys.argv[3])
RAW, PNG = "application/octet-stream", "image/png"


def png(width, height, pixel, kind=0, compressed=None):
    """A picture; `pixel(x, y)` returns the bytes of a pixel; kind 0 is gray, 2 RGB, 6 RGB with alpha."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    rows = b"".join(b"\0" + b"".join(pixel(x, y) for x in range(width)) for y in range(height)) if compressed is None else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows) if compressed is None else compressed) + chunk(b"IEND", b""))


def image(seed):
    numbers = random.Random(seed)
    return bytes(numbers.randrange(256) for _ in range(784))


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


class Server:
    def __init__(self, weights, *options, port=0, env=None, files=None):
        """`files`: the limit of open descriptors."""
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        self.log = open(WORK / "log", "w+")
        self.process = subprocess.Popen([PROGRAM, str(weights), "--port", str(port), *options], stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=env, preexec_fn=limit if files else None)
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), f"{line!r}, {self.said()}"
        self.port = int(line.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def said(self):
        return pathlib.Path(WORK / "log").read_text()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, method, path, body=None, kind=None):
        connection = self.connect()
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def predict(self, body, kind=RAW):
        status, _, content = self.ask("POST", "/predict", body, kind)
        assert status == 200, (status, content)
        return json.loads(content)

    def metrics(self):
        _, _, content = self.ask("GET", "/metrics")
        lines = [line for line in content.decode().splitlines() if not line.startswith("#")]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self, seconds=30):
        self.terminate()
        assert self.process.wait(seconds) == 0, self.said()


def untrained(path, seed):
    subprocess.run([PROGRAM, str(path), "--untrained", "--seed", str(seed)], check=True)


def routes():
    untrained(WORK / "net", 1)
    with Server(WORK / "net") as server:
        status, headers, page = server.ask("GET", "/")
        content = page
        assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<canvas" in content
        status, _, content = server.ask("GET", "/healthz")
        assert status == 200 and json.loads(content) == {"status": "ok"}
        pixels = image(1)
        one = server.predict(pixels)
        assert set(one) == {"class", "label", "probabilities"} and len(one["probabilities"]) == 10
        assert abs(sum(one["probabilities"]) - 1) < 1e-5 and one["probabilities"][one["label"]] == max(one["probabilities"])
        assert server.predict(png(28, 28, lambda x, y: pixels[28 * y + x:][:1]), PNG) == one
        assert server.predict(png(28, 28, lambda x, y: pixels[28 * y + x:][:1] * 3, 2), PNG) == one
        assert server.predict(png(28, 28, lambda x, y: b"\xff\xff\xff\0", 6), PNG) == server.predict(bytes(784))
        assert server.predict(pixels, RAW + "; charset=binary") == one
        assert server.predict(pixels, "Application/Octet-Stream ; charset=binary") == one
        assert server.predict(image(2)) != one
        status, _, content = server.ask("GET", "/nowhere")
        assert status == 404 and "no such page" in json.loads(content)["error"]
        status, headers, _ = server.ask("GET", "/predict")
        assert status == 405 and headers["Allow"] == "POST"
        wait_for(lambda: server.metrics()['lamina_http_responses_total{code="405"}'] == 1)
        found = answer_to(server, b"GET / HTTP/1.1\r\nConnection: close\r\nRange: bytes=" + b"0-," * 1000 + b"0-\r\n\r\n", end=None)
        assert found.startswith(b"HTTP/1.1 200") and len(found) < 2 * len(page), (len(page), found[:300])
        m = server.metrics()
        assert m['lamina_requests_total{outcome="answered"}'] == 8
        assert m["lamina_request_seconds_count"] == m['lamina_request_seconds_bucket{le="+Inf"}'] == 8
        assert m["lamina_batch_images_sum"] == 8 and 1 <= m["lamina_batch_images_count"] <= 8
        assert m["lamina_weights_bytes"] == 61706 * 4 and m["lamina_memory_bytes"] > 61706 * 4
        assert m['lamina_plans_total{result="made"}'] >= 1 and 'lamina_plans_total{result="hit"}' in m
        buckets = [value for name, value in m.items() if name.startswith("lamina_request_seconds_bucket")]
        assert buckets == sorted(buckets) and len(buckets) == 20
        # Many at once, on persistent connections: the same answers as for images sent alone.
        expected = [server.predict(image(seed)) for seed in range(20)]
        wrong = []

        def client(first):
            connection = server.connect()
            for i in range(40):
                connection.request("POST", "/predict", image((first + i) % 20), {"Content-Type": RAW})
                if json.loads(connection.getresponse().read()) != expected[(first + i) % 20]:
                    wrong.append(i)
            connection.close()
        run(client, 8)
        assert not wrong
        again = subprocess.run([PROGRAM, str(WORK / "net"), "--port", str(server.port)], capture_output=True, text=True)
        assert again.returncode == 2 and "cannot listen on" in again.stderr
        server.stop()
    for words in (["absent"], [str(WORK / "net"), "--batch", "0"]):
        refused = subprocess.run([PROGRAM, *words, "--port", "0"], capture_output=True, text=True, cwd=WORK)
        assert refused.returncode == 2 and refused.stderr.startswith("error: "), refused


def run(function, count):
    """Calls function(0), function(1) ... concurrently; raises the error of any of them."""
    errors = []

    def guarded(i):
        try:
            function(i)
        except Exception as e:
            errors.append(e)
    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def max_memory(process):
    """Peak memory of a process in bytes."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def answer_to(server, *parts, end=b"}\n"):
    """The answer to bytes on a new connection."""
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.settimeout(20)
        try:
            for part in parts:
                s.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass    # already refused
        found = b""
        try:
            while not (end and found.endswith(end)) and (part := s.recv(4096)):
                found += part
        except ConnectionResetError:
            pass
        return found


def unread():
    """Bodies are limited before they are read or unpacked."""
    untrained(WORK / "net", 1)
    head = b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
    with Server(WORK / "net") as server:
        expected = server.predict(image(1))
        before = max_memory(server.process)
        block = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        for path in (b"predict", b"nowhere"):
            found = answer_to(server, head % path + b"Transfer-Encoding: chunked\r\n\r\n", *[block] * 100, b"0\r\n\r\n")
            assert found.startswith(b"HTTP/1.1 411") and b"Content-Length" in found and b"Connection: close" in found, found
            found = answer_to(server, head % path + b"\r\n", *[bytes(1 << 20)] * 100)
            assert found.startswith(b"HTTP/1.1 411") and b"Connection: close" in found, found
            packed = gzip.compress(bytes(50000000))
            length = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
            found = answer_to(server, head % path + length, packed)
            assert found.startswith(b"HTTP/1.1 415") and b"without Content-Encoding" in found, found
            for words in (b"abc", b"-1", b"784, 784", b"784\r\nContent-Length: 785"):
                found = answer_to(server, head % path + b"Content-Length: " + words + b"\r\n\r\n", image(1))
                assert found.startswith(b"HTTP/1.1 400") and b"not a valid length" in found, (words, found)
        assert max_memory(server.process) < before + (16 << 20), (before, max_memory(server.process))
        assert server.predict(image(1)) == expected
        server.stop()


def malformed():
    untrained(WORK / "net", 1)
    good = png(28, 28, lambda x, y: bytes([x + y]))
    broken = bytearray(good)
    broken[45] ^= 0xff
    cases = [
        (400, "expected 784", b"", RAW), (400, "the body has 783 bytes", bytes(783), RAW), (400, "the body has 785 bytes", bytes(785), RAW),
        (400, "not a readable PNG", b"", PNG), (400, "not a readable PNG", image(1), PNG), (400, "not a readable PNG", good[:20], PNG),
        (400, "not a readable PNG", good[:-30], PNG), (400, "not a readable PNG", bytes(broken), PNG),
        (400, "not a readable PNG", png(28, 28, None, compressed=zlib.compress(b"\0" * 40)), PNG),
        (400, "27 x 28", png(27, 28, lambda x, y: b"\0"), PNG),
        (400, "100000 x 100000", png(100000, 100000, None, compressed=b""), PNG),
        (415, "expected the content type", good, "image/jpeg"), (415, "octet-stream; got none", good, None),
        (415, "expected the content type", good, "multipart/form-data; boundary=x"),
        (415, "expected the content type", b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n', "multipart/form-data; boundary=x"),
        (413, "the body is too long", bytes(70000), RAW), (413, "the body is too long", bytes(1 << 20), PNG),
    ]
    with Server(WORK / "net") as server:
        expected = server.predict(good, PNG)
        for status, words, body, kind in cases:
            try:
                found, _, content = server.ask("POST", "/predict", body, kind)
            except (BrokenPipeError, ConnectionResetError):
                assert status == 413 or kind.startswith("multipart"), (status, words)    # refused before its end is read
                continue
            assert found == status and words in json.loads(content)["error"], (status, words, found, content)
        for garbage in (b"\0" * 100, b"GET\r\n\r\n", b"POST /predict HTTP/1.1\r\nContent-Length: x\r\n\r\n", os.urandom(3000) + b"\r\n\r\n",
                        b"POST /predict HTTP/1.1\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n\r\nabc"):
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.sendall(garbage)
                s.shutdown(socket.SHUT_WR)
                s.settimeout(20)
                try:
                    answer = s.recv(100)
                    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer
                except ConnectionResetError:
                    pass
        assert server.predict(good, PNG) == expected
        server.stop()


def reload():
    a, b, net = WORK / "a", WORK / "b", WORK / "net"
    untrained(a, 1)
    untrained(b, 2)

    def place(content):
        (WORK / "new").write_bytes(content)
        os.replace(WORK / "new", net)
    place(a.read_bytes())
    pixels = image(1)
    with Server(net) as server:
        old = server.predict(pixels)
        place(b.read_bytes())
        with Server(net) as other:
            new = other.predict(pixels)
        assert old != new
        place(a.read_bytes())
        seen, over = [], threading.Event()

        def client():
            connection = server.connect()
            while not over.is_set():
                connection.request("POST", "/predict", pixels, {"Content-Type": RAW})
                seen.append(json.loads(connection.getresponse().read()))
            connection.close()
        clients = [threading.Thread(target=client) for _ in range(3)]
        for c in clients:
            c.start()

        def signalled(result, count, expected, words):
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.metrics()[f'lamina_reloads_total{{result="{result}"}}'] == count)
            wait_for(lambda: words in server.said())
            assert server.predict(pixels) == expected
        untrained(net, 2)    # as the library saves it
        signalled("good", 1, new, "serve: loaded weights from ")
        place(a.read_bytes()[:100000])
        signalled("refused", 1, new, "keeping the current weights: " + str(net))
        place(b"")
        signalled("refused", 2, new, "keeping the current weights")
        net.unlink()
        signalled("refused", 3, new, "No such file")
        content = bytearray(a.read_bytes())
        content[-4:] = struct.pack("<f", float("nan"))
        place(content)
        signalled("refused", 4, new, "has a value that is not finite")
        place(a.read_bytes())
        written_in_place(server, net)
        net.unlink()
        os.mkfifo(net)       # which has no writer
        reloaded = server.metrics()
        good, refused = (reloaded[f'lamina_reloads_total{{result="{r}"}}'] for r in ("good", "refused"))
        signalled("refused", refused + 1, old, "not a regular file")
        place(a.read_bytes())
        signalled("good", good + 1, old, "serve: loaded weights from ")
        over.set()
        for c in clients:
            c.join()
        assert len(seen) > 10 and all(s in (old, new) for s in seen)
        server.stop()


def written_in_place(server, net):
    """Truncates and refills the weights in place while they are read: they load completely, or are refused."""
    content = net.read_bytes()
    with open(net, "r+b", buffering=0) as file:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            server.process.send_signal(signal.SIGHUP)
            for _ in range(40):
                file.truncate(0)
                os.pwrite(file.fileno(), content, 0)
    time.sleep(0.5)
    assert server.process.poll() is None, "the server has ended"
    before = server.metrics()['lamina_reloads_total{result="good"}']
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.metrics()['lamina_reloads_total{result="good"}'] > before)


def last_requests():
    """Requests sent before the server is stopped are answered, with an answer that closes the connection."""
    whole = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 784\r\n\r\n" + image(1)
    for turn in range(10):
        with Server(WORK / "net") as server:
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.settimeout(20)
                s.sendall(whole)
                server.terminate()
                found = b""
                while part := s.recv(4096):
                    found += part
                assert found.startswith(b"HTTP/1.1 200"), (turn, found)
            assert server.process.wait(10) == 0
    # The next request of a persistent connection is answered; an unfinished one does not delay the server.
    with Server(WORK / "net") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            kept = server.connect()
            for _ in range(2):
                kept.request("POST", "/predict", image(1), {"Content-Type": RAW})
                answer = kept.getresponse()
                answer.read()
                if answer.getheader("Connection") == "close":
                    break
                server.terminate()
                time.sleep(0.2)
            assert answer.status == 200 and answer.getheader("Connection") == "close", answer.getheaders()
            end = time.monotonic() + 15
            while server.process.poll() is None and time.monotonic() < end:
                try:
                    slow.sendall(b"a")
                except OSError:
                    pass
                time.sleep(0.5)
            assert server.process.poll() == 0, "a slow client holds the server"


def stop():
    untrained(WORK / "net", 1)
    last_requests()
    for options in (["--batch", "1", "--delay", "0"], ["--delay", "20000"]):
        with Server(WORK / "net", *options) as server:
            expected = [server.predict(image(seed)) for seed in range(4)]
            received, wrong, lock = [len(expected)], [], threading.Lock()

            def client(number):
                for i in range(1000000):
                    # Half of the clients reuse their connection.
                    if i == 0 or number % 2:
                        connection = server.connect()
                    try:
                        connection.request("POST", "/predict", image(number % 4), {"Content-Type": RAW})
                        answer = connection.getresponse()
                        content = answer.read()
                    except (ConnectionError, http.client.RemoteDisconnected):
                        return    # without an answer, nothing was accepted
                    with lock:
                        received[0] += 1
                        if answer.status == 200 and json.loads(content) != expected[number % 4]:
                            wrong.append(content)
                        if answer.status not in (200, 503):
                            wrong.append(answer.status)
                    if number % 2:
                        connection.close()
            clients = [threading.Thread(target=client, args=(n,)) for n in range(8)]
            for c in clients:
                c.start()
            wait_for(lambda: received[0] > 100)
            server.stop()
            for c in clients:
                c.join(30)
                assert not c.is_alive()
            assert not wrong, wrong[:3]
            assert f"stopped after {received[0]} answers" in server.said(), (received, server.said())


def kill():
    net, numbers = WORK / "net", random.Random(5)
    pixels, known = image(1), {}
    for seed in (1, 2):
        untrained(WORK / str(seed), seed)
        with Server(WORK / str(seed)) as server:
            known[json.dumps(server.predict(pixels))] = seed
    shutil.copy(WORK / "1", net)
    found = set()
    for turn in range(10):
        with Server(net) as server:
            found.add(known[json.dumps(server.predict(pixels))])
            writer = subprocess.Popen([PROGRAM, str(net), "--untrained", "--seed", str(1 + turn % 2)])
            end = time.monotonic() + numbers.random() * 0.1
            while time.monotonic() < end:
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.002)
            server.process.kill()
            if turn % 3 == 0:
                writer.kill()
            writer.wait()
    with Server(net) as server:
        found.add(known[json.dumps(server.predict(pixels))])
        kept = server.connect()
        kept.request("GET", "/healthz")
        kept.getresponse().read()
        server.process.kill()
        server.process.wait()
        with Server(net, port=server.port) as again:    # beside the connection of the dead server
            again.predict(pixels)
            again.stop()
        kept.close()
    assert found == {1, 2}, found


def locale():
    """In a locale with a decimal comma, answers and figures are the same."""
    untrained(WORK / "net", 1)

    def said(env):
        with Server(WORK / "net", env=env) as server:
            _, _, answer = server.ask("POST", "/predict", image(1), RAW)
            _, _, content = server.ask("GET", "/metrics")
            server.metrics()    # parses each as a number
            server.stop()
            assert b'_bucket{le="0.0005"}' in content and b"_sum 0.0" in content, content
            return answer, [line.split(b" ")[0] for line in content.splitlines()]
    assert said(None) == said({**os.environ, "LD_PRELOAD": os.environ["LAMINA_LOCALE_PRELOAD"]})


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    {"routes": routes, "malformed": malformed, "unread": unread, "reload": reload, "stop": stop, "kill": kill, "locale": locale}[sys.argv[1]]()
    print(f"{sys.argv[1]}: good")
