from __future__ import annotations

import hashlib
import http.server
import json
import re
import socket
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from auucmax.data import _download
from auucmax.data._download import ChecksumError, DownloadError, digest, download

CONTENT = np.random.default_rng(0).bytes(700_001)
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


@dataclass
class Plan:
    """What the server does; ``cuts`` holds, for each request in turn, how many bytes it sends."""

    content: bytes = CONTENT
    ranges: bool = True
    etag: str | None = '"one"'
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


class Handler(http.server.BaseHTTPRequestHandler):
    plan: Plan

    def do_GET(self):
        plan = self.plan
        plan.requests.append({key.lower(): value for key, value in self.headers.items()})
        if plan.statuses and (status := plan.statuses.pop(0)) != 200:
            return self._answer(status)
        start = self._start()
        if start is None:
            self._answer(200, plan.content)
        elif start >= len(plan.content):
            self._answer(416, headers={"Content-Range": f"bytes */{len(plan.content)}"})
        else:
            end = len(plan.content)
            span = {"Content-Range": f"bytes {start}-{end - 1}/{end}"}
            self._answer(206, plan.content[start:], span)

    def _start(self):
        wanted = self.plan.requests[-1]
        if not self.plan.ranges or "range" not in wanted:
            return None
        if "if-range" in wanted and wanted["if-range"] != self.plan.etag:
            return None
        return int(re.fullmatch(r"bytes=(\d+)-", wanted["range"]).group(1))

    def _answer(self, status, body=b"", headers=None):
        plan = self.plan
        plan.answers.append(status)
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if plan.etag:
            self.send_header("ETag", plan.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = plan.cuts.pop(0) if plan.cuts and body else None
        self.wfile.write(body[:cut])
        self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def serve():
    servers = []

    def start(**settings):
        plan = Plan(**settings)
        handler = type("PlannedHandler", (Handler,), {"plan": plan})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/data.bin", plan

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def refused():
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/data.bin"


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("checksum", [None, SHA256, MD5, SHA256[:7] + SHA256[7:].upper()])
def test_a_whole_file_and_nothing_beside_it(serve, tmp_path, checksum):
    url, _ = serve()
    target = tmp_path / "new" / "folder" / "data.bin"
    assert "sha256:" + download(url, target, checksum) == SHA256
    assert target.read_bytes() == CONTENT
    assert names(target.parent) == ["data.bin"]


def test_a_cut_connection_is_resumed(serve, tmp_path):
    url, plan = serve(cuts=[300_000, 100_000])
    download(url, tmp_path / "data.bin", SHA256, wait=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert plan.answers == [200, 206, 206]
    assert [r.get("range") for r in plan.requests] == [None, "bytes=300000-", "bytes=400000-"]
    assert names(tmp_path) == ["data.bin"]


def test_a_server_without_ranges_starts_again(serve, tmp_path):
    url, plan = serve(ranges=False, cuts=[300_000])
    download(url, tmp_path / "data.bin", wait=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert plan.answers == [200, 200]


def test_many_cuts_are_forgiven_as_long_as_bytes_arrive(serve, tmp_path):
    url, plan = serve(cuts=[70_000] * 9)
    download(url, tmp_path / "data.bin", SHA256, wait=0)
    assert len(plan.answers) == 10


def test_cuts_that_bring_nothing_new_end_in_an_error(serve, tmp_path):
    url, plan = serve(ranges=False, cuts=[1000] * 50)
    with pytest.raises(
        DownloadError, match=r"4 times in a row .*ended after 1,000 of 700,001 bytes"
    ):
        download(url, tmp_path / "data.bin", wait=0)
    assert len(plan.answers) == 4
    assert not (tmp_path / "data.bin").exists()


def test_the_next_call_goes_on_with_the_partial_file(serve, tmp_path):
    url, plan = serve(cuts=[300_000], statuses=[200, 503, 503, 503, 503])
    with pytest.raises(DownloadError, match=r"goes on from byte 300,000"):
        download(url, tmp_path / "data.bin", wait=0)
    assert "data.bin" not in names(tmp_path)
    download(url, tmp_path / "data.bin", wait=0)
    assert plan.requests[-1]["range"] == "bytes=300000-"
    assert plan.requests[-1]["if-range"] == '"one"'
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["data.bin"]


def test_a_partial_file_of_unknown_origin_needs_a_checksum(serve, tmp_path):
    url, plan = serve()
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:5000])
    download(url, tmp_path / "data.bin", SHA256)
    assert plan.requests[-1]["range"] == "bytes=5000-"
    (tmp_path / "data.bin.part").write_bytes(b"of another file")
    download(url, tmp_path / "data.bin")
    assert "range" not in plan.requests[-1]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("honours_if_range", [True, False])
def test_a_remote_file_that_changed_is_fetched_anew(serve, tmp_path, honours_if_range):
    url, plan = serve(cuts=[300_000], statuses=[200, 503, 503, 503, 503])
    with pytest.raises(DownloadError):
        download(url, tmp_path / "data.bin", wait=0)
    plan.content = CONTENT[::-1] + b"longer"
    if honours_if_range:
        plan.etag = '"two"'
    else:
        stamp = tmp_path / "data.bin.part.json"
        stamp.write_text(json.dumps({"tag": None, "size": len(CONTENT)}))
    download(url, tmp_path / "data.bin", wait=0)
    assert (tmp_path / "data.bin").read_bytes() == plan.content
    assert names(tmp_path) == ["data.bin"]


def test_a_weak_etag_is_not_sent_back(serve, tmp_path):
    url, plan = serve(etag='W/"one"', cuts=[300_000])
    download(url, tmp_path / "data.bin", SHA256, wait=0)
    assert "if-range" not in plan.requests[-1]
    assert plan.answers == [200, 206]


@pytest.mark.parametrize("extra", [b"", b"too long"])
def test_a_partial_file_that_is_complete_or_too_long(serve, tmp_path, extra):
    url, plan = serve()
    (tmp_path / "data.bin.part").write_bytes(CONTENT + extra)
    download(url, tmp_path / "data.bin", SHA256, wait=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert plan.answers == ([416] if not extra else [416, 200])


def test_a_wrong_checksum_keeps_nothing(serve, tmp_path):
    url, _ = serve()
    (tmp_path / "data.bin").write_bytes(b"the old file")
    wrong = "0" * 64
    with pytest.raises(ChecksumError, match=f"sha256 {wrong}, got {SHA256[7:]}"):
        download(url, tmp_path / "data.bin", "sha256:" + wrong)
    assert names(tmp_path) == ["data.bin"]
    assert (tmp_path / "data.bin").read_bytes() == b"the old file"


def test_404_is_final(serve, tmp_path):
    url, plan = serve(statuses=[404] * 9)
    with pytest.raises(DownloadError, match=r"got HTTP 404 Not Found. Check the address"):
        download(url, tmp_path / "data.bin", wait=0)
    assert plan.answers == [404]
    assert names(tmp_path) == []


def test_a_busy_server_is_asked_again(serve, tmp_path):
    url, plan = serve(statuses=[503, 429])
    download(url, tmp_path / "data.bin", SHA256, wait=0)
    assert plan.answers == [503, 429, 200]


def test_nobody_listens(refused, tmp_path):
    with pytest.raises(DownloadError, match=r"failed 4 times .*refused"):
        download(refused, tmp_path / "data.bin", wait=0)
    assert names(tmp_path) == []


def test_a_silent_server_times_out(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/data.bin"
        with pytest.raises(DownloadError, match="timed out"):
            download(url, tmp_path / "data.bin", wait=0, timeout=0.05)


@pytest.mark.parametrize("checksum", ["abc", "sha1:abc", "sha256:"])
def test_a_checksum_names_its_algorithm(tmp_path, checksum):
    with pytest.raises(ValueError, match=r"'sha256:<hex>' or 'md5:<hex>'"):
        download("http://127.0.0.1/", tmp_path / "data.bin", checksum)


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://example.org/x", "data.bin"])
def test_only_web_addresses(tmp_path, url):
    with pytest.raises(ValueError, match="http"):
        download(url, tmp_path / "data.bin")


def test_the_bar_goes_to_stderr_only(serve, tmp_path, capfd):
    url, _ = serve()
    download(url, tmp_path / "quiet.bin")
    assert capfd.readouterr() == ("", "")
    download(url, tmp_path / "loud.bin", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "loud.bin" in err


def test_digest_reads_the_whole_file(tmp_path):
    (tmp_path / "x").write_bytes(CONTENT)
    assert "md5:" + digest(tmp_path / "x", "md5") == MD5
    assert len(CONTENT) > _download.BLOCK
