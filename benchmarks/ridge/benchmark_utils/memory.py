"""The peak of this process's memory during one run, without a thread that would disturb it."""

import ctypes
import gc
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc(5): the peak is set back to what is resident now


class PeakMemory:
    """Bytes that are resident at the peak, from the making of this object on, beyond those then.

    Linux keeps the peak; elsewhere it is nan.
    """

    def __init__(self):
        gc.collect()
        self.before = float("nan")
        try:
            # Give back what earlier solvers freed: it would hide what this one needs.
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            CLEAR.write_text(RESET_PEAK)
            self.before = _status("VmRSS")
        except OSError:
            pass  # not Linux, or not allowed: unknown

    def bytes(self):
        return _status("VmHWM") - self.before if self.before == self.before else self.before


def _status(key):
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    return 1024 * int(lines[key].split()[0])
