//! Who a process is, and whether it still lives.
//!
//! A pid says nothing outside its pid namespace, and is used again after its process has gone. So a process is known by pid,
//! start time and pid namespace, and only a process of the same namespace may call it dead. In doubt it is alive.

use core::ffi::CStr;

/// A process.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its pid, in its own namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 if unknown.
    pub start: u64,
    /// Inode of its pid namespace; 0 if unknown.
    pub namespace: u64,
    /// Where the kernel has put its program: another after `execve`, which changes nothing else. 0 if unknown.
    pub image: u64,
}

/// What can be said of a process.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Life {
    /// It runs, or nobody here can tell.
    Alive,
    /// It has ended.
    Dead,
}

impl Identity {
    /// The calling process.
    #[must_use]
    pub fn own() -> Self {
        // SAFETY: asks for a number.
        let pid = u32::try_from(unsafe { libc::getpid() }).unwrap_or(0);
        // Not by the number: `/proc` may be of another pid namespace, where it is somebody else's.
        let stat = stat_at("/proc/self/stat\0");
        Self {
            pid,
            start: stat.as_ref().map_or(0, |stat| stat.start),
            namespace: inode(c"/proc/self/ns/pid").unwrap_or(0),
            image: stat.map_or(0, |stat| stat.image),
        }
    }
}

/// Whether the process of `pid` in this pid namespace, whose start time has these low bits under `mask`, is alive, and still
/// the program of this `image` (0: whatever program).
#[must_use]
pub fn life(pid: u32, start: u64, mask: u64, image: u64) -> Life {
    let Ok(number) = libc::pid_t::try_from(pid) else {
        return Life::Alive;
    };
    if number <= 0 {
        return Life::Alive;
    }
    // SAFETY: signal 0 only asks.
    if unsafe { libc::kill(number, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    {
        return Life::Dead;
    }
    match stat(pid) {
        Some(stat) if start != 0 && stat.start & mask != start => Life::Dead,
        Some(Stat { ended: true, .. }) => Life::Dead,
        Some(stat) if image != 0 && stat.image != 0 && stat.image != image => Life::Dead,
        _ => Life::Alive,
    }
}

/// Inode of a file, without following it to anywhere but where `/proc` leads.
#[must_use]
pub fn inode(path: &CStr) -> Option<u64> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a NUL-terminated path and room for the answer.
    if unsafe { libc::stat(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by the call.
    Some(unsafe { stat.assume_init() }.st_ino)
}

struct Stat {
    start: u64,
    /// A zombie without other threads: its memory on the device is gone.
    ended: bool,
    /// Of the addresses of its code and stack, which only those who might trace it are told; else 0.
    image: u64,
}

/// Reads `/proc/<pid>/stat`, if `/proc` is of this process's pid namespace: a process that was started in a namespace of its
/// own without a new mount sees an outer one, in which the pid is somebody else's.
fn stat(pid: u32) -> Option<Stat> {
    // SAFETY: asks for a number.
    let own = u32::try_from(unsafe { libc::getpid() }).ok();
    if own != pid_in_proc() {
        return None;
    }
    stat_at(&format!("/proc/{pid}/stat\0"))
}

/// By what pid `/proc` knows this process.
fn pid_in_proc() -> Option<u32> {
    let mut buffer = [0_u8; 16];
    // SAFETY: a NUL-terminated path, and the buffer's own length.
    let length = unsafe {
        libc::readlink(
            c"/proc/self".as_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    let text = buffer.get(..usize::try_from(length).ok()?)?;
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a file as `/proc/<pid>/stat` is; `path` ends in NUL.
fn stat_at(path: &str) -> Option<Stat> {
    let mut buffer = [0_u8; 1024];
    parse(read(path, &mut buffer)?)
}

fn parse(text: &[u8]) -> Option<Stat> {
    // The name in parentheses may contain anything, parentheses too.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = core::str::from_utf8(text.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    // Fields 20, 22, 26 and 28 of proc(5); `state` is field 3.
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    let mut address = |skip| -> Option<u64> { fields.nth(skip)?.parse().ok() };
    let code = address(3).unwrap_or(0);
    let stack = address(1).unwrap_or(0);
    Some(Stat {
        start,
        ended: matches!(state, "Z" | "X" | "x") && threads <= 1,
        image: if code > 1 && stack > 1 {
            code.rotate_left(32) ^ stack
        } else {
            0
        },
    })
}

/// Reads a small file; `path` ends in NUL.
pub(crate) fn read<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let path = CStr::from_bytes_with_nul(path.as_bytes()).ok()?;
    // SAFETY: a NUL-terminated path; the descriptor is closed below; the buffer's own length.
    let length = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        length
    };
    buffer.get(..usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn this_process_is_alive_and_no_other_is_it() {
        let me = Identity::own();
        assert!(me.start > 0);
        assert!(me.namespace > 0);
        assert_eq!(life(me.pid, me.start, ALL, me.image), Life::Alive);
        assert_eq!(life(me.pid, me.start & 0xff, 0xff, 0), Life::Alive);
        assert_eq!(life(me.pid, me.start + 1, ALL, 0), Life::Dead);
        assert_eq!(life(me.pid, 0, ALL, 0), Life::Alive);
    }

    #[test]
    fn a_process_that_has_become_another_program_is_not_who_it_was() {
        let me = Identity::own();
        assert_ne!(me.image, 0);
        assert_eq!(life(me.pid, me.start, ALL, me.image + 1), Life::Dead);
    }

    #[test]
    fn an_ended_child_is_dead_even_before_it_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let mut left = 1000;
        while life(pid, 0, ALL, 0) == Life::Alive {
            assert!(left > 0, "a zombie counts as alive");
            left -= 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.wait().unwrap();
        assert_eq!(life(pid, 0, ALL, 0), Life::Dead);
    }

    #[test]
    fn pid_zero_is_nobody_that_could_be_called_dead() {
        assert_eq!(life(0, 1, ALL, 0), Life::Alive);
        assert_eq!(life(u32::MAX, 1, ALL, 0), Life::Alive);
    }

    #[test]
    fn a_name_may_contain_anything() {
        let line = b"7 (a) Z 1 (b) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0 0 9 16 17 32 0";
        let stat = parse(line).unwrap();
        assert_eq!(stat.start, 4711);
        assert!(!stat.ended);
        assert_eq!(stat.image, 16 << 32 ^ 32);
        let zombie = b"7 (x) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert!(parse(zombie).unwrap().ended);
        let leader = b"7 (x) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 4711 0 0";
        assert!(!parse(leader).unwrap().ended);
    }
}
