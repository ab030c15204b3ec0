# Starts a Jupyter kernel: ipykernel itself, with a few differences.
import sys

# A file of the lesson called random.py must not stand in for Python's own
# while the kernel loads. The kernel adds the folder again, behind the library.
if sys.path and sys.path[0] == "":
    del sys.path[0]

import faulthandler
import importlib.util
import os
import time

# The last words of a crash go to the standard error that the runtime reads;
# the kernel soon gives that number to a pipe of its own.
last_words = os.fdopen(os.dup(2), "w")
faulthandler.enable(last_words, all_threads=False)

if importlib.util.find_spec("ipykernel") is None:
    sys.exit(97)

from ipykernel.kernelapp import IPKernelApp


class LabKernelApp(IPKernelApp):
    def init_kernel(self):
        super().init_kernel()
        # The debugger that the kernel has loaded passes over breakpoint()
        # without a word when nobody is attached. Python's own raises, as
        # there is nobody to ask.
        sys.breakpointhook = sys.__breakpointhook__

    def init_iopub(self, context):
        try:
            # Output that comes faster than it is read waits instead of
            # vanishing.
            import zmq

            context.setsockopt(zmq.SNDHWM, 0)
        except Exception:
            pass
        super().init_iopub(context)


def pace(stream):
    """How long text waits for more of it: hardly when it is the first for a
    while, and longer when it comes without a pause."""
    now = time.monotonic()
    quiet = now - getattr(stream, "_last_wait", 0) > 0.008
    stream._last_wait = now
    return 0.002 if quiet else 0.05


try:
    # What is printed leaves soon, not after a fifth of a second.
    from ipykernel.iostream import OutStream

    OutStream.flush_interval = property(pace)
except Exception:
    pass

LabKernelApp.launch_instance()
