//! What the shim says: by default only what stops the program, never on stdout.
//!
//! A line is formatted on the stack and written by one `write`, so that it allocates nothing, needs little stack, and does
//! not mix with the application's own lines. A log file is opened for each line: a descriptor that we kept could be closed
//! by the application and become one of its own.

use core::ffi::{CStr, c_char};
use core::fmt::{Arguments, Write};
use core::mem::MaybeUninit;

use quota_abi::settings::Log;
use quota_abi::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

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
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let second = u64::try_from(now.tv_sec).unwrap_or(0);
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
        // SAFETY: `length` bytes have been written; the path is a NUL-terminated string that stays; the application's
        // errno is put back.
        unsafe {
            let errno = *libc::__errno_location();
            let file = if path.is_null() {
                2
            } else {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
                libc::open(path, flags, 0o644 as libc::c_uint)
            };
            if file >= 0 {
                let _ = libc::write(file, self.bytes.as_ptr().cast(), self.length);
                if !path.is_null() {
                    libc::close(file);
                }
            }
            *libc::__errno_location() = errno;
        }
    }
}
