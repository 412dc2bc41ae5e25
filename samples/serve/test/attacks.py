#!/usr/bin/env python3
"""attacks.py PART PROGRAM DIRECTORY [PRELOAD]: tests the sample serve with hostile local clients and with failing system calls.

PRELOAD is a library that makes allocations and thread starts fail (tests/support/failing_preload.cpp)."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from check import PROGRAM, RAW, WORK, Server, answer_to, image, max_memory, run, untrained, wait_for

PRELOAD = sys.argv[4] if len(sys.argv) > 4 else None
HEAD = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 784\r\n"


def wanting(**what):
    """An environment that sets `allocation`, `count`, `thread` or `report` for the preloaded library."""
    names = {"LAMINA_FAIL_" + name.upper(): str(value) for name, value in what.items()}
    return {**os.environ, "LD_PRELOAD": PRELOAD, **names}


def request(pixels, fields=b""):
    return HEAD + fields + b"\r\n" + pixels


def threads_of(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def answers_in(stream, count):
    """Status and content of the next `count` answers on a connection."""
    found = []
    for _ in range(count):
        status = int(stream.readline().split()[1])
        length = 0
        while line := stream.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        found.append((status, stream.read(length)))
    return found


def is_well(server, within=2.0):
    """Checks that each monitoring page is answered within `within` seconds."""
    for path in ("/healthz", "/metrics"):
        begin = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", path)
        assert connection.getresponse().status == 200
        connection.close()
        assert time.monotonic() - begin < within, (path, time.monotonic() - begin)


def threads():
    """If a thread cannot be started, the server reports it and exits; connections need no threads."""
    for k in (1, 2, 3):
        ended = subprocess.run([PROGRAM, str(WORK / "net"), "--port", "0"], capture_output=True, text=True, timeout=30, env=wanting(thread=k))
        assert ended.returncode == 2 and "listening" not in ended.stdout, (k, ended)
        assert ended.stderr.startswith("error: ") and "cannot be started: Resource temporarily unavailable" in ended.stderr, (k, ended)
    with Server(WORK / "net", env=wanting(thread=4)) as server:
        before = threads_of(server)
        connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        for c in connections:
            c.sendall(request(image(1)))
        for c in connections:
            assert answers_in(c.makefile("rb"), 1)[0][0] == 200
        assert threads_of(server) == before == 4, (before, threads_of(server))
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "serve: loaded weights from " in server.said())
        for c in connections:
            c.close()
        server.stop(10)


def heads():
    """Endless heads take no memory, and are refused."""
    fields = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(60000))
    with Server(WORK / "net") as server:
        server.predict(image(1))
        before = max_memory(server.process)
        for head in (b"GET / HTTP/1.1\r\n" + fields + b"\r\n", b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 60000 + b"\r\n",
                     b"GET /" + b"x" * 10000000 + b" HTTP/1.1\r\n\r\n", b"x" * 10000000,
                     b"GET / HTTP/1.1\r\nX: " + b"y" * 10000000 + b"\r\n\r\n"):
            found = answer_to(server, head)
            assert found.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")) and b"Connection: close" in found, found[:300]
        # 1000 connections, each with the largest permitted head: a few kilobytes for each.
        with contextlib.ExitStack() as open_ones:
            for _ in range(1000):
                c = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                c.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 7000)
            is_well(server)
            assert max_memory(server.process) < before + (40 << 20), (before, max_memory(server.process))
        is_well(server)
        server.stop()


def slow():
    """Slow senders and readers do not block other clients; the time of a request counts from its beginning."""
    with Server(WORK / "net", "--connections", "150", "--receive", "1500") as server:
        expected, over = server.predict(image(1)), time.monotonic() + 6
        with contextlib.ExitStack() as open_ones:
            def connect():
                return open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            dripping = [(connect(), request(image(1))) for _ in range(400)]
            one = connect()
            one.settimeout(20)
            for c in [connect() for _ in range(50)]:
                c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                with contextlib.suppress(OSError):
                    c.sendall(b"GET / HTTP/1.1\r\n\r\n" * 2000)
            begin, taken = time.monotonic(), b""
            one.setblocking(False)
            for sent in range(1000):
                if time.monotonic() > over:
                    break
                for c, bytes_of_it in dripping:
                    with contextlib.suppress(OSError):
                        c.send(bytes_of_it[sent:sent + 1])
                if not taken:
                    with contextlib.suppress(OSError):
                        one.send(request(image(1))[sent:sent + 1])
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        taken = one.recv(4096)
                        assert not taken or taken.startswith(b"HTTP/1.1 408") and time.monotonic() - begin < 4, taken
                is_well(server)
                assert server.predict(image(1)) == expected
                time.sleep(0.1)
            m = server.metrics()
            assert m["lamina_http_connections"] <= 150 + 16 + 1, m
            assert m['lamina_http_connections_total{event="gave_way"}'] > 100 and m['lamina_http_connections_total{event="timed_out"}'] > 10, m
        server.stop(10)
    # The same with clients that never yield: each gets a timeout.
    with Server(WORK / "net", "--receive", "700") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.settimeout(10)
            begin, found = time.monotonic(), b""
            s.setblocking(False)
            while not found and time.monotonic() < begin + 5:
                with contextlib.suppress(OSError):
                    s.send(b"G")
                time.sleep(0.1)
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    found = s.recv(4096)
            assert found.startswith(b"HTTP/1.1 408") and time.monotonic() - begin < 3, (found, time.monotonic() - begin)
        server.stop(10)


def pipelined():
    """Pipelined requests are answered in order, whatever their bodies contain, also after the client stops sending."""
    hidden = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
    disguised = (hidden * 40)[:784]
    with Server(WORK / "net") as server:
        bodies = [image(1), disguised, image(2), image(3), disguised]
        expected = [server.predict(b) for b in bodies]
        whole = b"".join(request(b) for b in bodies)
        for pieces in ([whole], [whole[i:i + 97] for i in range(0, len(whole), 97)]):
            for half_closed in (False, True):
                with socket.create_connection(("127.0.0.1", server.port)) as s:
                    s.settimeout(20)
                    for piece in pieces:
                        s.sendall(piece)
                    s.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                    if half_closed:
                        s.shutdown(socket.SHUT_WR)
                    stream = s.makefile("rb")
                    found = answers_in(stream, len(bodies) + 1)
                    assert [status for status, _ in found] == [200] * (len(bodies) + 1), found
                    assert [json.loads(content) for _, content in found[:-1]] == expected
                    if half_closed:
                        assert stream.read() == b""
        # Many at once: no client gets the answer of another one.
        seeds = [server.predict(image(seed)) for seed in range(8)]

        def client(number):
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.settimeout(20)
                order = [(number + i) % 8 for i in range(50)]
                s.sendall(b"".join(request(image(seed)) for seed in order))
                s.shutdown(socket.SHUT_WR)
                found = answers_in(s.makefile("rb"), len(order))
                assert [json.loads(content) for _, content in found] == [seeds[seed] for seed in order]
        run(client, 8)
        # A body that ends too early, after the announced expectation.
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.settimeout(20)
            s.sendall(request(image(1))[:-1])
            s.shutdown(socket.SHUT_WR)
            assert s.makefile("rb").read().startswith(b"HTTP/1.1 400")
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.settimeout(20)
            s.sendall(HEAD + b"Expect: 100-continue\r\n\r\n")
            stream = s.makefile("rb")
            assert stream.readline() == b"HTTP/1.1 100 Continue\r\n" and stream.readline() == b"\r\n"
            s.sendall(image(1))
            assert json.loads(answers_in(stream, 1)[0][1]) == expected[0]
        server.stop(10)


def loaded():
    """Monitoring pages are answered under overload, and without free descriptors."""
    with Server(WORK / "net", "--capacity", "4", "--batch", "1", "--workers", "1", "--connections", "40") as server:
        statuses, end = set(), time.monotonic() + 3

        def client(_):
            connection = server.connect()
            while time.monotonic() < end:
                try:
                    connection.request("POST", "/predict", image(1), {"Content-Type": RAW})
                    answer = connection.getresponse()
                    statuses.add(answer.status)
                    answer.read()
                except (ConnectionError, http.client.HTTPException):
                    connection.close()
            connection.close()

        def watcher(_):
            while time.monotonic() < end:
                is_well(server)
        run(lambda i: watcher(i) if i == 0 else client(i), 30)
        assert 200 in statuses and statuses <= {200, 503, 504}, statuses
        server.stop(10)
    with Server(WORK / "net", files=120) as server:
        with contextlib.ExitStack() as open_ones:
            for _ in range(300):
                open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            is_well(server)
        assert "connections: limited by file descriptors" in server.said()
        server.predict(image(1))
        server.stop(10)


def drain():
    """SIGTERM ends the server within its limit, whatever clients do, and at once if there are none."""
    with Server(WORK / "net") as server:
        server.predict(image(1))
        begin = time.monotonic()
        server.stop(10)
        assert time.monotonic() - begin < 3, time.monotonic() - begin
    with Server(WORK / "net") as server:
        with contextlib.ExitStack() as open_ones:
            held = [open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(100)]
            for i, c in enumerate(held):
                c.sendall((b"", request(image(1))[:300], b"GET /metrics HTTP/1.1\r\n\r\n" * 100)[i % 3])
            begin = time.monotonic()
            server.terminate()
            while server.process.poll() is None and time.monotonic() < begin + 10:
                for c in held:
                    with contextlib.suppress(OSError):
                        c.send(b"x")
                time.sleep(0.2)
            assert server.process.poll() == 0 and time.monotonic() - begin < 8, (server.process.poll(), time.monotonic() - begin)
    with Server(WORK / "net") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(b"G")
            wait_for(lambda: server.metrics()["lamina_http_connections"] == 2)
            begin = time.monotonic()
            server.terminate()
            wait_for(lambda: "stopping" in server.said())
            server.terminate()    # does not wait
            assert server.process.wait(5) == 0 and time.monotonic() - begin < 2


def memory():
    """Any failing allocation: a message and exit code 2, or a closed connection; the server runs on."""
    report = WORK / "report"

    def one(k, count):
        """Whether the server starts to listen when allocation k and the following ones fail."""
        process = subprocess.Popen([PROGRAM, str(WORK / "net"), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=wanting(allocation=k, count=count, report=report))
        try:
            line = process.stdout.readline()
            if not line:
                _, said = process.communicate(timeout=20)
                assert process.returncode == 2 and "out of memory" in said, (k, count, process.returncode, said)
                return False
            port, good = int(line.rsplit(":", 1)[1]), 0
            for _ in range(40):
                with contextlib.suppress(OSError, IndexError, ValueError):
                    with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
                        s.sendall(request(image(1)) + b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
                        statuses = [status for status, _ in answers_in(s.makefile("rb"), 2)]
                        assert set(statuses) <= {200, 500, 503, 504}, (k, count, statuses)
                        good += statuses == [200, 200]
                if good == 2:
                    break
            assert good == 2, (k, count, "no answers")
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=20)
            assert process.returncode == 0, (k, count, process.returncode, said)
            return True
        finally:
            process.kill()
            process.communicate()

    assert one(0, 1)
    all_of_them = int(report.read_text())
    # Steps that cover every phase, and each of the last allocations, which belong to requests.
    step = max(1, all_of_them // int(os.environ.get("LAMINA_SWEEP", "60")))
    listened = [one(k, 1) for k in range(1, all_of_them, step)]
    assert True in listened and False in listened
    for k in range(1, all_of_them, 7 * step):
        one(k, 25)


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    untrained(WORK / "net", 1)
    {f.__name__: f for f in (threads, heads, slow, pipelined, loaded, drain, memory)}[sys.argv[1]]()
    print(f"{sys.argv[1]}: good")
