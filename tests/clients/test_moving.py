"""Faces that move between packet threads: files that are complete, and commands that must be refused."""

import asyncio
import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

import pyndn
import router as router_module
from packets import CONTROL_PARAMETERS, Wire, command, components, data, elements, interest, nni, tlv
from router import Router

FACE_ID, THREAD = 0x69, 294


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> int:
    """One thread more than elsewhere: two and three, or what the command line says."""
    return 1 + getattr(request, "param", max(1, router_module.threads_of_all - 1))


def move_parameters(face: int | None, thread: int | None) -> bytes:
    fields = [tlv(FACE_ID, nni(face))] if face is not None else []
    fields += [tlv(THREAD, nni(thread))] if thread is not None else []
    return tlv(CONTROL_PARAMETERS, *fields)


def faces(router: Router, scheme: str | None = None) -> list[dict]:
    listed = json.loads(router.cli("face", "list", *(["--scheme", scheme] if scheme else []), "--json").stdout)
    return [face for face in listed if face["face_id"] >= 256]


def moved(router: Router) -> tuple[int, int]:
    """How many faces came to threads, and left threads."""
    status = json.loads(router.cli("status", "--json").stdout)["general"]["threads"]
    return sum(thread["faces_come"] for thread in status), sum(thread["faces_left"] for thread in status)


class Mover:
    """Moves all connections from thread to thread until the end of a `with`."""

    def __init__(self, router: Router) -> None:
        self.router, self.ends, self.refused = router, threading.Event(), []
        self.thread = threading.Thread(target=self.run)
        self.moves = 0

    def run(self) -> None:
        with Wire(self.router.unix) as wire:
            wire.socket.settimeout(20)
            ids = [face["face_id"] for face in faces(self.router)]
            to = 0
            while not self.ends.is_set():
                to = (to + 1) % self.router.threads
                for face in ids:
                    answer = wire.exchange(command("faces/move", move_parameters(face, to)))
                    if b"does not exist" in answer:
                        # The face of the command that listed the faces.
                        ids.remove(face)
                        break
                    if b"OK" not in answer:
                        self.refused.append(answer)
                        return
                    self.moves += 1

    def __enter__(self) -> "Mover":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("files") / "moving.bin"
    content = os.urandom(10_000_000)
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("fetched_at", ["unix", "tcp"])
@pytest.mark.parametrize("served_at", ["unix", "tcp"])
async def test_files_are_complete_while_their_faces_move(router: Router, file, served_at: str, fetched_at: str):
    path, digest = file
    async with pyndn.current(router.uplink(served_at)) as server, pyndn.current(router.uplink(fetched_at)) as client:
        await pyndn.serve_file(server, "/file", path)
        with Mover(router) as mover:
            got = await asyncio.wait_for(pyndn.fetch_file(client, "/file"), 120)
    assert got == (digest, path.stat().st_size)
    assert mover.moves > 20 and not mover.refused, (mover.moves, mover.refused)
    come, left = moved(router)
    assert come == left > 10
    drops = {reason: count for reason, count in router.metrics().items() if "drops_total" in reason and count}
    assert not any("ring" in reason or "moving" in reason or "no-face" in reason for reason in drops), drops


def test_a_moved_face_keeps_all_but_its_thread(router: Router):
    with Wire(router.tcp) as peer, Wire(router.unix) as client:
        peer.send(interest("/nowhere"))
        peer.receive(0.2)
        [before] = faces(router, "tcp4")
        router.cli("route", "add", "/p", str(before["face_id"]))
        to = (before["thread"] + 1) % router.threads
        told = router.cli("face", "move", str(before["face_id"]), str(to)).stdout
        assert told.startswith("face-moved") and told.endswith(f"thread={to}\n"), told
        [after] = faces(router, "tcp4")
        assert after["thread"] == to
        assert {**after, "thread": 0} == {**before, "thread": 0}
        client.send(interest("/p/1"))
        peer.receive(0.5)
        peer.send(data("/p/1", b"moved"))
        [(_, answer)] = client.receive(1)
        assert b"moved" in answer
        shown = json.loads(router.cli("face", "show", str(before["face_id"]), "--json").stdout)
        assert shown["thread"] == to
        assert f"thread={to}" in router.cli("face", "list").stdout
        moved_as = json.loads(router.cli("face", "move", before["remote_uri"], "0", "--json").stdout)
        assert (moved_as["action"], moved_as["thread"]) == ("face-moved", 0)
    assert "a command moved a face" in router.log()


def test_moves_that_cannot_be_are_refused_with_reasons(router: Router):
    with Wire(router.unix) as wire:
        wire.status(command("faces/move", move_parameters(None, 0)))
        # The faces of the commands that list them are gone.
        before = {face["face_id"] for face in faces(router, "unix")}
        [own] = [face for face in faces(router, "unix") if face["face_id"] in before]

        def refusal(*args: str) -> tuple[int, str]:
            run = router.cli("face", "move", *args, check=False)
            return run.returncode, run.stderr
        unknown = refusal("99999", "0")
        assert unknown[0] == 6 and "no face has id 99999" in unknown[1]
        no_thread = refusal(str(own["face_id"]), str(router.threads))
        reason = f"there is no packet thread {router.threads}: they have the numbers 0 to {router.threads - 1}"
        assert no_thread[0] != 0 and reason in no_thread[1], no_thread
        assert refusal(str(own["face_id"]), "-1")[0] != 0 and refusal(str(own["face_id"]), "first")[0] != 0

        def status(face: int | None, thread: int | None) -> int | None:
            return wire.status(command("faces/move", move_parameters(face, thread)))
        assert status(99999, 0) == 404
        assert status(own["face_id"], router.threads) == 406
        assert status(own["face_id"], 2**64 - 1) == 406
        assert status(1, 1) == 403
        assert status(own["face_id"], None) == 400
        assert status(own["face_id"], own["thread"]) == 200
        extra = tlv(CONTROL_PARAMETERS, tlv(7, components("/a")), tlv(FACE_ID, nni(own["face_id"])), tlv(THREAD, nni(0)))
        assert wire.status(command("faces/move", extra)) == 400
        for forge in ("signature", "parameters", "unsigned"):
            assert wire.status(command("faces/move", move_parameters(own["face_id"], 1), forge=forge)) in (403, None)
    with Wire(router.udp) as stranger:
        assert stranger.status(command("faces/move", move_parameters(own["face_id"], 1))) is None
    come, left = moved(router)
    assert come == left <= 1


def test_udp_faces_move_as_far_as_there_is_room(router: Router):
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(Wire(router.unix))
        peers = [stack.enter_context(Wire(router.udp)) for _ in range(65)]
        for peer in peers:
            peer.send(interest("/nowhere"))
            assert peer.receive(1), "a Nack"
        listed = faces(router, "udp4")
        assert len(listed) == len(peers)

        def move(face: dict) -> int | None:
            to = (face["thread"] + 1) % router.threads
            return wire.status(command("faces/move", move_parameters(face["face_id"], to)))
        assert [move(face) for face in listed] == 64 * [200] + [409]
        for peer in peers:
            peer.send(interest("/nowhere/else"))
            assert peer.receive(1), "a Nack, wherever its face is"
        after = faces(router, "udp4")
        assert {face["face_id"] for face in after} == {face["face_id"] for face in listed}
        moves = sum(old["thread"] != new["thread"] for old, new in zip(listed, after, strict=True))
        assert moves == 64
        told = router.cli("face", "move", str(after[0]["face_id"]), str(listed[0]["thread"])).stdout
        assert told.startswith("face-moved") and told.endswith(f"thread={listed[0]['thread']}\n"), told


def test_a_thousand_moves_and_then_one_answer(router: Router):
    with Wire(router.unix) as wire, Wire(router.unix) as other:
        wire.socket.settimeout(20)
        for step in range(1000):
            # Face 0 is the one that sends the command.
            [(_, answer)] = elements(wire.exchange(command("faces/move", move_parameters(0, step % router.threads))))
            assert b"OK" in answer
        assert other.status(command("faces/move", move_parameters(None, 0))) == 200
    come, left = moved(router)
    assert come == left >= 998


def test_moves_and_ends_at_once(router: Router):
    for _ in range(20):
        wires = [Wire(router.tcp) for _ in range(3)]
        for wire in wires:
            wire.send(interest("/nowhere"))
            wire.receive(0.05)
        ids = [face["face_id"] for face in faces(router, "tcp4")]
        results = []

        def run(*args: str) -> None:
            results.append(router.cli("face", *args, check=False))
        ends = [("destroy", str(ids[0])), ("move", str(ids[0]), "1"), ("move", str(ids[1]), "1"), ("move", str(ids[1]), "0")]
        calls = [threading.Thread(target=run, args=args) for args in ends]
        for call in calls:
            call.start()
        wires[1].socket.close()
        for call in calls:
            call.join()
        assert all(result.returncode in (0, 6) for result in results), [(r.args, r.stderr) for r in results]
        for wire in wires:
            wire.socket.close()
    for _ in range(100):
        if not faces(router, "tcp4"):
            break
    assert not faces(router, "tcp4")
    come, left = moved(router)
    assert come == left


def test_one_thread_has_nowhere_to_move_to(directory: Path):
    with Router(directory, threads=1) as router, Wire(router.unix) as wire:
        assert wire.status(command("faces/move", move_parameters(0, 0))) == 200
        assert wire.status(command("faces/move", move_parameters(0, 1))) == 406
        [thread] = json.loads(router.cli("status", "--json").stdout)["general"]["threads"]
        assert thread["faces_come"] is None and thread["faces"] >= 1
