"""python-ndn's own management command, `pynfdc`, and where its clients look for the router.

Unlike other clients, pynfdc signs the Interests with which it reads datasets, so
that their names end in a ParametersSha256DigestComponent.
"""

import os
import subprocess
import sys

import pytest

from router import Router


def python_ndn(router: Router, *args: str, **environment: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("NDN_")}
    result = subprocess.run(
        [sys.executable, *args], text=True, capture_output=True, timeout=20, stdin=subprocess.DEVNULL,
        env={**env, "HOME": str(router.directory), **environment},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def pynfdc(router: Router, *args: str) -> str:
    script = "from ndn.bin.nfdc import main; main()"
    return python_ndn(router, "-c", script, *args, NDN_CLIENT_TRANSPORT=router.unix)


def test_status(router: Router):
    said = pynfdc(router, "Get-Status")
    assert "nInInterests" in said and "Timeout" not in said, said


def test_faces(router: Router):
    assert pynfdc(router, "New-Face", "udp4://127.0.0.1:9").startswith("200")
    [row] = [line for line in pynfdc(router, "Get-Face").splitlines() if "udp4://127.0.0.1:9" in line]
    face = row.split()[0]
    assert "PERSISTENT" in pynfdc(router, "Get-Face", face).upper()
    assert f"Face ID\t{face}" in pynfdc(router, "Get-Face", "udp4://127.0.0.1:9")
    assert "200" in pynfdc(router, "Remove-Face", "udp4://127.0.0.1:9")
    assert "udp4://127.0.0.1:9" not in pynfdc(router, "Get-Face")


def test_routes(router: Router):
    pynfdc(router, "New-Face", "udp4://127.0.0.1:9")
    [row] = [line for line in pynfdc(router, "Get-Face").splitlines() if "udp4://127.0.0.1:9" in line]
    face = row.split()[0]
    assert pynfdc(router, "New-Route", "/pynfdc", face).startswith("200")
    listed = pynfdc(router, "Get-Route", "/pynfdc")
    assert listed.count("/pynfdc") == 2, "in the FIB and in the RIB"
    assert f"FaceID={face}" in listed
    assert pynfdc(router, "Remove-Route", "/pynfdc", face).startswith("200")
    assert "/pynfdc" not in pynfdc(router, "Get-Route")


def test_strategies(router: Router):
    assert pynfdc(router, "Set-Strategy", "/pynfdc", "multicast").startswith("200")
    listed = pynfdc(router, "Get-Strategy")
    assert "/pynfdc" in listed and "multicast" in listed
    assert pynfdc(router, "Set-Strategy", "/pynfdc", "/localhost/nfd/strategy/none").startswith("404")
    assert pynfdc(router, "Remove-Strategy", "/pynfdc").startswith("200")
    assert "/pynfdc" not in pynfdc(router, "Get-Strategy")


@pytest.mark.parametrize("place", ["environment", "client.conf"])
def test_an_application_finds_the_router(router: Router, place: str):
    """As programs do that name no router: by NDN_CLIENT_TRANSPORT, or by ~/.ndn/client.conf."""
    application = (
        "from ndn.appv2 import NDNApp\n"
        "app = NDNApp()\n"
        "async def work():\n"
        "    print('registered', await app.register('/found'))\n"
        "    app.shutdown()\n"
        "app.run_forever(after_start=work())\n"
    )
    environment = {}
    if place == "environment":
        environment["NDN_CLIENT_TRANSPORT"] = router.unix
    else:
        (router.directory / ".ndn").mkdir()
        (router.directory / ".ndn" / "client.conf").write_text(f"transport={router.unix}\n")
    assert "registered True" in python_ndn(router, "-c", application, **environment)
