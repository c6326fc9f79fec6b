"""Two threads of one process may begin to speak at the same moment."""

import subprocess
import sys

RACE = """
import threading, time
import msgspec
from paceline.messages.watching import JobStatus, ProcessStatus, QueueStatus

said = msgspec.msgpack.encode(JobStatus(
    state="running", queue=QueueStatus(0, 0, 0, 0, 0), pace="sync",
    processes=(ProcessStatus("a", "b", 1, 2, "h", "a", "s", 1, 1),),
    epochs=1, records=1, tasks_done=1, tasks_failed=0, steps=1, metrics={"loss": 1.0},
    total_records=3, timeline=1, cut=1, counters={},
))
learned = []  # one entry a struct that msgspec looks into
may_begin = threading.Event()

def trace(frame, *_):
    if frame.f_code.co_name == "get_class_annotations":
        learned.append(frame)
        if len(learned) == 2:  # the outer struct is known by half
            may_begin.set()
            time.sleep(0.5)

def speak():
    msgspec.msgpack.Decoder(JobStatus)
    may_begin.set()

threading.settrace(trace)
first = threading.Thread(target=speak)
first.start()
may_begin.wait()
msgspec.msgpack.Decoder(JobStatus).decode(said)
first.join()
"""


def test_two_threads_that_begin_to_speak_at_once_both_live() -> None:
    ended = subprocess.run([sys.executable, "-c", RACE], check=False, timeout=60)
    assert ended.returncode == 0
