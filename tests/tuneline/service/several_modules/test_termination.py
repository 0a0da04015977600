"""``tuneline serve`` after SIGTERM: whoever has connected gets an answer."""

import http.client
import json
import sys
import threading
import time
from pathlib import Path

import psutil

from benchmarks.service.peers import free_port, wait_for_health

TUNELINE = Path(sys.executable).with_name("tuneline")
ROW = json.dumps({"inputs": ["where is it", "the parcel never came"]})


def ask_until_refused(port, statuses, lost):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while True:
        try:
            connection.request("POST", "/predict", ROW, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        except ConnectionRefusedError:
            return
        except (OSError, http.client.HTTPException) as error:
            lost.append(repr(error))
            return


def test_sigterm_loses_no_request_of_clients_that_keep_their_connections(pair_folder, tmp_path):
    port = free_port()
    command = [TUNELINE, "serve", "--model", pair_folder, "--port", str(port)]
    log = tmp_path / "server.log"
    with log.open("wb") as output, psutil.Popen(command, stderr=output) as server:
        wait_for_health(server, port, log)
        statuses, lost = [], []
        clients = [threading.Thread(target=ask_until_refused, args=(port, statuses, lost)) for _ in range(8)]
        for client in clients:
            client.start()
        time.sleep(1)
        server.terminate()
        for client in clients:
            client.join()
        server.wait(30)
    assert server.returncode == 0
    assert not lost
    assert set(statuses) == {200}
