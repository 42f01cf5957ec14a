//! What the shim says: by default only what stops the program, never on stdout.
//!
//! A line is formatted on the stack and written by one `write`, so that it allocates nothing, needs little stack, and does
//! not mix with the application's own lines. A log file is opened for each line: a descriptor that we kept could be closed
//! by the application and become one of its own.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::{Arguments, Write};
use core::mem::MaybeUninit;

use quota_abi::settings::Log;
use quota_abi::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::guard::uncancelled;
use crate::time::clock;

/// Lines per second; a program that is refused in a loop must not fill a disk.
const LINES_PER_SECOND: u32 = 20;
/// Longest line.
const LINE: usize = 1024;

static LEVEL: AtomicU32 = AtomicU32::new(Log::Error as u32);
static FILE: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());
static SECOND: AtomicU64 = AtomicU64::new(0);
static LINES: AtomicU32 = AtomicU32::new(0);

/// Sets the level and the file, which stays as long as the process.
pub(crate) fn configure(level: Log, file: Option<&'static CStr>) {
    LEVEL.store(level as u32, Ordering::Relaxed);
    let file = file.map_or(core::ptr::null_mut(), |file| file.as_ptr().cast_mut());
    FILE.store(file, Ordering::Release);
}

/// Says why the program is stopped.
pub(crate) fn stop(what: Arguments<'_>) {
    say(Log::Error, what);
}

/// Says what happened.
pub(crate) fn info(what: Arguments<'_>) {
    say(Log::Info, what);
}

/// Says what helps to find out why.
pub(crate) fn debug(what: Arguments<'_>) {
    say(Log::Debug, what);
}

#[cold]
fn say(level: Log, what: Arguments<'_>) {
    if level as u32 > LEVEL.load(Ordering::Relaxed) || !may_speak(level) {
        return;
    }
    let mut line = Line {
        bytes: [MaybeUninit::uninit(); LINE],
        length: 0,
    };
    // SAFETY: asks for a number.
    let pid = unsafe { libc::getpid() };
    let _ = write!(line, "gpu-quota[{pid}]: {what}");
    line.write_out();
}

fn may_speak(level: Log) -> bool {
    if level == Log::Error {
        return true;
    }
    let second = u64::try_from(clock::own() / 1_000_000_000).unwrap_or(0);
    if SECOND.swap(second, Ordering::Relaxed) != second {
        LINES.store(0, Ordering::Relaxed);
    }
    LINES.fetch_add(1, Ordering::Relaxed) < LINES_PER_SECOND
}

struct Line {
    bytes: [MaybeUninit<u8>; LINE],
    length: usize,
}

impl Write for Line {
    /// Keeps what fits, and a byte for the end of the line.
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            match self.bytes.get_mut(self.length) {
                Some(place) if self.length < LINE - 1 => {
                    place.write(byte);
                    self.length += 1;
                }
                _ => break,
            }
        }
        Ok(())
    }
}

impl Line {
    fn write_out(mut self) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            place.write(b'\n');
            self.length += 1;
        }
        let path = FILE.load(Ordering::Acquire);
        uncancelled(|| {
            // SAFETY: the C library's own word of this thread; the application's value is put back.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: as above.
            let before = unsafe { errno.read() };
            if path.is_null() {
                self.write_to(2);
            } else {
                // SAFETY: a NUL-terminated string that stays; our own descriptor.
                unsafe {
                    let file = libc::open(path, OPEN_LOG, 0o644 as libc::c_uint);
                    if file >= 0 {
                        self.write_to(file);
                        libc::close(file);
                    }
                }
            }
            // SAFETY: as above.
            unsafe { errno.write(before) };
        });
    }

    /// Writes the line if whoever reads it is there to read. Neither a full pipe nor one that nobody reads any more is a reason
    /// to stop the program, or to kill it.
    fn write_to(&self, file: c_int) {
        let mut ready = libc::pollfd {
            fd: file,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one live entry.
        let answered = unsafe { libc::poll(&raw mut ready, 1, PATIENCE_MS) };
        if answered != 1 || ready.revents & libc::POLLOUT == 0 || ready.revents & BROKEN != 0 {
            return;
        }
        without_sigpipe(|| {
            // SAFETY: `length` bytes have been written.
            unsafe { libc::write(file, self.bytes.as_ptr().cast(), self.length) };
        });
    }
}

/// A line that is longer in coming through than this is lost.
const PATIENCE_MS: c_int = 200;
const BROKEN: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
/// A FIFO that nobody reads is not waited for, and a terminal does not become the program's own.
const OPEN_LOG: c_int = libc::O_WRONLY
    | libc::O_CREAT
    | libc::O_APPEND
    | libc::O_CLOEXEC
    | libc::O_NONBLOCK
    | libc::O_NOCTTY;

/// The reader of a pipe may go between our look and our write.
fn without_sigpipe(write: impl FnOnce()) {
    let mut pipe = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for each answer, and each set is filled before it is read. A signal that was pending before stays so; ours is
    // taken back before the thread's own mask is.
    unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::sigemptyset(pending.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        let theirs = libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1;
        if libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) != 0 {
            return;
        }
        write();
        if !theirs {
            libc::sigtimedwait(pipe.as_ptr(), core::ptr::null_mut(), &raw const none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
    }
}
