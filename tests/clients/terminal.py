"""A terminal for programs that draw: what is on its screen when a pattern has appeared."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pyte

ROWS, COLUMNS = 40, 160


def screen(command, env, folder, until, limit=20):
    """The text on the screen as soon as it matches `until`, or when the program ends, or after `limit` seconds."""
    pid, terminal = pty.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(folder)
            os.execve(command[0], command, env | {"TERM": "xterm", "LANG": "C.UTF-8", "XDG_CONFIG_HOME": folder})
        os._exit(127)
    display = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(display)
    end = time.monotonic() + limit
    try:
        while (left := end - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                try:
                    data = os.read(terminal, 65536)
                except OSError:  # the program has ended
                    break
                stream.feed(data)
                if re.search(until, text(display)) and not select.select([terminal], [], [], 0.3)[0]:
                    break
        return text(display)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def text(display):
    return "\n".join(line.rstrip() for line in display.display)
