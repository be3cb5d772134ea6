"""What does llm-d-inference-sim do, as far as its runner can see? A stand-in, with every fault that it may have.

It is started as the real one is, through a generated executable that calls `main` with its faults (`Faults`).
Standard library only, and little of it: it is started without site-packages, twice for each test.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn, TypedDict

FLAGS = {
    "--config": "string", "--data-parallel-size": "int", "--dataset-in-memory": "", "--inter-token-latency": "time",
    "--max-model-len": "int", "--max-num-seqs": "int", "--max-waiting-queue-length": "int", "--mode": "string",
    "--model": "string", "--port": "int", "--seed": "int", "--served-model-name": "strings[=dummy]",
    "--time-to-first-token": "time", "--tokenizers-cache-dir": "string",
}  # fmt: skip
TIMES = {"int": r"-?\d+", "duration": r"(\d+(\.\d+)?(ns|us|ms|s|m|h))+"}


class Faults(TypedDict, total=False):
    """What it does otherwise than the real one (v0.6.1); `note` is a file to which it adds a line for what happens."""

    time_type: str  # what --help calls the type of a time: "int", "duration"
    lacks: list[str]  # flags that it does not know
    help: str  # what --help does instead: "hang", or "libraries"
    note: str
    exits: int  # at once, with that code
    complains: str  # of that, once it has shown its configuration, and exits
    log_mb: int
    child: bool  # it leaves one, in another session and deaf to TERM
    bind: str  # "never", or a file: when that is there
    term: str  # what TERM does instead: "ignore"
    names: list[str]  # what /v1/models lists instead
    health: int  # the status of /health
    counts: dict[str, int]  # what /tokenize counts; an unknown text counts 1
    tokenize_status: int
    metrics: str  # what /metrics says instead
    quiet: str  # a path that is never answered,
    quiet_after: int  # but so many times


def main(faults: Faults) -> None:
    """Be the simulator."""
    types = {flag: faults.get("time_type", "int") if kind == "time" else kind for flag, kind in FLAGS.items()}
    types = {flag: kind for flag, kind in types.items() if flag not in faults.get("lacks", [])}
    if sys.argv[1:] == ["--help"]:
        _help(faults, types)
    Simulator(faults, _parsed(sys.argv[1:], types)).run()


def _help(faults: Faults, types: dict[str, str]) -> NoReturn:
    match faults.get("help"):
        case "hang":
            while True:
                signal.pause()
        case "libraries":
            sys.stderr.write(f"{sys.argv[0]}: error while loading shared libraries: libzmq.so.5: cannot open\n")
            sys.exit(127)
    sys.stderr.write('I1130 19:52:23.085111 1 main.go:36] "Starting vLLM simulator"\nUsage of flags:\n')
    for flag, kind in types.items():
        sys.stderr.write(f"      {flag + ' ' * bool(kind) + kind:<40}   What it means, e.g. 100ms (default 1)\n")
    sys.stderr.write("  -v, --v Level                                 number for the log level verbosity\n")
    sys.exit(0)


def _parsed(words: list[str], types: dict[str, str]) -> dict[str, list[str]]:
    """Read the arguments as pflag does; a list goes on to the next flag."""
    told: dict[str, list[str]] = {}
    flag = ""
    for word in words:
        if not word.startswith("--"):
            told[flag].append(word)
            continue
        flag, has_value, value = word.partition("=")
        if flag not in types:
            _fail(f"unknown flag: {flag}")
        told[flag] = [value] if has_value else []
    for flag, values in told.items():
        pattern = TIMES.get(types[flag])
        if pattern and not re.fullmatch(pattern, values[-1]):
            _fail(f'invalid argument \\"{values[-1]}\\" for \\"{flag}\\" flag: invalid syntax')
    if told.get("--mode", ["echo"]) != ["echo"]:
        _fail(f"invalid mode '{told['--mode'][0]}', valid values are 'random' and 'echo'")
    return told


def _fail(error: str) -> NoReturn:
    _complain(error)
    sys.exit(0)


def _complain(error: str) -> None:
    sys.stderr.write(f'E1130 19:57:16.274242 1 main.go:44] "vLLM simulator failed" err="{error}"\n')
    sys.stderr.flush()


class Simulator:
    """The server: a thread for each connection; TERM waits for the streams, and a second one does not."""

    def __init__(self, faults: Faults, told: dict[str, list[str]]) -> None:
        self._faults, self._told = faults, told
        self._streams, self._terms = 0, 0
        self._asked: list[str] = []

    def run(self) -> None:
        faults = self._faults
        self._note(f"started {os.getpid()}")
        for name, value in os.environ.items():
            if name.startswith("HF_"):
                self._note(f"environment {name}={value}")
        for folder in self._told.get("--tokenizers-cache-dir", []):
            self._note(f"tokenizers {folder}")
        sys.stderr.write('I1130 19:57:16.581276 1 main.go:36] "Starting vLLM simulator"\n')
        if "exits" in faults:
            sys.exit(faults["exits"])
        sys.stderr.write(f'I1130 19:57:16.586498 1 helpers.go:95] "Configuration:" =<\n{json.dumps(self._told)}\n >\n')
        if "complains" in faults:
            _fail(faults["complains"])
        for _ in range(faults.get("log_mb", 0)):
            sys.stderr.write(("x" * 99 + "\n") * 10_000)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if faults.get("term") == "ignore" else self._term)
        if faults.get("child"):
            self._leave_child()
        threading.Thread(target=self._serve, daemon=True).start()
        while True:
            signal.pause()

    def _note(self, line: str) -> None:
        if "note" in self._faults:
            with Path(self._faults["note"]).open("a") as file:
                file.write(f"{line}\n")

    def _term(self, *_: object) -> None:
        self._terms += 1
        self._note("term")
        if self._terms == 2 or not self._streams:
            os._exit(self._terms - 1)

    def _leave_child(self) -> None:
        child = os.fork()
        if not child:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        self._note(f"child {child}")

    def _serve(self) -> None:
        when = self._faults.get("bind", "/")
        while not Path(when).exists():
            time.sleep(0.005)
        listener, port = socket.socket(), int(self._told["--port"][0])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0", port))  # noqa: S104 -- as the real one does
            listener.listen(64)
        except OSError:
            _complain(f"listener creation error: listen tcp4 :{port}: bind: address already in use")
            os._exit(0)
        while True:
            threading.Thread(target=self._talk, args=(listener.accept()[0],), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as file:
            while request := file.readline().split():
                size = 0
                for line in iter(file.readline, b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                body = json.loads(file.read(size) or "{}")
                path = request[1].decode()
                self._note(f"asked {path}")
                self._asked += [path]
                if path == self._faults.get("quiet") and self._asked.count(path) > self._faults.get("quiet_after", 0):
                    self._note("quiet")
                    threading.Event().wait()
                if path == "/v1/completions":
                    self._stream(connection)
                    return
                status, reply = self._answer(path, body)
                data = reply.encode()
                file.write(b"HTTP/1.1 %d Told\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data))
                file.flush()

    def _answer(self, path: str, body: dict[str, str]) -> tuple[int, str]:
        match path:
            case "/health":
                return self._faults.get("health", 200), "{}"
            case "/v1/models":
                names = self._faults.get("names", self._told["--served-model-name"])
                return 200, json.dumps({"object": "list", "data": [{"id": name} for name in names]})
            case "/tokenize" if status := self._faults.get("tokenize_status"):
                return status, "Failed to tokenize, the model was not found"
            case "/tokenize":
                return 200, json.dumps({"count": self._faults.get("counts", {}).get(body["prompt"], 1)})
            case "/metrics":
                return 200, self._faults.get("metrics", METRICS)
            case "/exit":
                sys.stderr.write("its last words\n")
                sys.stderr.flush()
                os._exit(0)
        return 404, ""

    def _stream(self, connection: socket.socket) -> None:
        """Begin a stream that has no end."""
        self._streams += 1
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\n\n\r\n")
        threading.Event().wait()


METRICS = """\
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{finish_reason="length",model_name="m"} 3
vllm:request_success_total{finish_reason="stop",model_name="m"} 4
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 2
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="0.3"} 5
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="+Inf"} 7
vllm:e2e_request_latency_seconds_sum{model_name="m"} 1.5
vllm:e2e_request_latency_seconds_count{model_name="m"} 7
"""
