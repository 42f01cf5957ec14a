//! Mapping a usage region.
//!
//! # Safety
//! A region is words of atomics for which every bit pattern is valid, in a file that every process of the group may write.
//! A reference to it is formed only after size, magic and version have been checked. The file's pages are allocated before
//! they are touched: a full tmpfs would otherwise end the program with SIGBUS. Truncation by a member of the group still
//! does; standalone mode promises nothing against the group's own processes.

pub mod snapshot;

use core::ffi::{CStr, c_int};
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::layout::{MAGIC, Region, VERSION};
use crate::map;
use crate::sync::Ordering;

/// A mapped region; never unmapped.
#[derive(Copy, Clone)]
pub struct Mapped(NonNull<Region>);

// SAFETY: the region is atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Deref for Mapped {
    type Target = Region;

    fn deref(&self) -> &Region {
        // SAFETY: checked when it was mapped, never unmapped.
        unsafe { self.0.as_ref() }
    }
}

/// Why a region cannot be used.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: CString,
    /// What is wrong with it.
    pub cause: Cause,
}

/// What is wrong with a region's file.
#[derive(Debug)]
pub enum Cause {
    /// The kernel refused this step.
    System(&'static str, std::io::Error),
    /// It has another size.
    Size(u64),
    /// It is not a region.
    Magic,
    /// It is a region of another version.
    Version(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        match &self.cause {
            Cause::System(step, error) => write!(f, "cannot {step} {path}: {error}"),
            Cause::Size(size) => write!(
                f,
                "{path} has {size} bytes instead of {}",
                size_of::<Region>()
            ),
            Cause::Magic => write!(f, "{path} is not a region of quotas"),
            Cause::Version(version) => {
                write!(f, "{path} has version {version} instead of {VERSION}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl Mapped {
    /// The region, for as long as the process lives.
    #[must_use]
    pub fn get(self) -> &'static Region {
        // SAFETY: checked when it was mapped, never unmapped.
        unsafe { self.0.as_ref() }
    }

    /// Maps the region of `path` if there is one.
    pub fn open(path: &CStr) -> Result<Option<Self>, Error> {
        match open_file(path, 0) {
            Ok(file) => map_file(path, &file).map(Some),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(system(path, "open", error)),
        }
    }

    /// Maps the region of `path`, which is created if need be.
    ///
    /// Opened without O_CREAT first: in a sticky directory the kernel refuses that on a file of somebody else's.
    pub fn open_or_create(path: &CStr) -> Result<Self, Error> {
        loop {
            if let Some(region) = Self::open(path)? {
                return Ok(region);
            }
            match open_file(path, libc::O_CREAT | libc::O_EXCL) {
                Ok(file) => {
                    // SAFETY: an open descriptor. The mode of `open` is cut by the umask, this one is not.
                    if unsafe { libc::fchmod(file.0, 0o666) } != 0 {
                        return Err(last(path, "open up"));
                    }
                    return map_file(path, &file);
                }
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(system(path, "create", error)),
            }
        }
    }

    /// Maps a region that is open already; `name` is what errors call it. A file of size 0 becomes one.
    pub fn from_file(file: BorrowedFd<'_>, name: &CStr) -> Result<Self, Error> {
        // Closed by its owner, not here.
        let file = core::mem::ManuallyDrop::new(File(file.as_raw_fd()));
        map_file(name, &file)
    }

    /// A region that nobody else sees, for tests.
    #[must_use]
    pub fn private() -> Option<Self> {
        map::anonymous(size_of::<Region>() + 4096).map(|pages| Self(pages.cast()))
    }
}

struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { libc::close(self.0) };
    }
}

fn open_file(path: &CStr, more: c_int) -> std::io::Result<File> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | more;
    // SAFETY: a NUL-terminated path.
    match unsafe { libc::open(path.as_ptr(), flags, 0o666 as libc::c_uint) } {
        -1 => Err(std::io::Error::last_os_error()),
        file => Ok(File(file)),
    }
}

/// Sizes, maps and checks an open file. Nobody waits for a creator: whoever comes first to a step does it, and all steps
/// have the same outcome for everybody.
fn map_file(path: &CStr, file: &File) -> Result<Mapped, Error> {
    let expected = size_of::<Region>();
    let length = libc::off_t::try_from(expected).unwrap_or(0);
    let size = size_of_file(path, file)?;
    if size != 0 && usize::try_from(size) != Ok(expected) {
        return Err(error(path, Cause::Size(size)));
    }
    allocate(path, file, size, length)?;
    // SAFETY: a new mapping of an open file at an address of the kernel's choice.
    let pages = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            expected,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.0,
            0,
        )
    };
    if pages == libc::MAP_FAILED {
        return Err(last(path, "map"));
    }
    let Some(pages) = NonNull::new(pages.cast::<Region>()) else {
        return Err(error(path, Cause::Magic));
    };
    let region = Mapped(pages);
    check(&region).map_err(|cause| {
        // SAFETY: our own mapping, which nobody has seen.
        unsafe { map::release(pages.cast(), expected) };
        error(path, cause)
    })?;
    Ok(region)
}

/// Extends an empty file, allocates the pages of any.
fn allocate(path: &CStr, file: &File, size: u64, length: libc::off_t) -> Result<(), Error> {
    let mut most = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: room for the answer.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut most) } == 0;
    if size == 0 && known && most.rlim_cur < libc::rlim_t::try_from(length).unwrap_or(0) {
        // The kernel would kill the program by SIGXFSZ.
        let refused = std::io::Error::from_raw_os_error(libc::EFBIG);
        return Err(system(path, "allocate (see ulimit -f)", refused));
    }
    loop {
        // SAFETY: an open descriptor.
        match unsafe { libc::posix_fallocate(file.0, 0, length) } {
            0 => return Ok(()),
            // Linux before 6.0 gives up when any signal is pending, a profiler's timer for example.
            libc::EINTR => {}
            refused => {
                let refused = std::io::Error::from_raw_os_error(refused);
                return Err(system(path, "allocate", refused));
            }
        }
    }
}

/// Writes the header of a fresh region, or checks that of another's.
fn check(region: &Region) -> Result<(), Cause> {
    let header = &region.header;
    let size = u64::try_from(size_of::<Region>()).unwrap_or(0);
    if header.version.load(Ordering::Acquire) == 0 {
        header.magic.store(MAGIC, Ordering::Relaxed);
        header.size.store(size, Ordering::Relaxed);
        // SYNC POINT with the load above: who sees a version sees the rest.
        let _ = header
            .version
            .compare_exchange(0, VERSION, Ordering::Release, Ordering::Relaxed);
    }
    if header.magic.load(Ordering::Relaxed) != MAGIC {
        return Err(Cause::Magic);
    }
    match header.version.load(Ordering::Acquire) {
        VERSION => {}
        other => return Err(Cause::Version(other)),
    }
    match header.size.load(Ordering::Relaxed) {
        stored if stored == size => Ok(()),
        other => Err(Cause::Size(other)),
    }
}

fn size_of_file(path: &CStr, file: &File) -> Result<u64, Error> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: an open descriptor and room for the answer.
    if unsafe { libc::fstat(file.0, stat.as_mut_ptr()) } != 0 {
        return Err(last(path, "examine"));
    }
    // SAFETY: filled by the call.
    let stat = unsafe { stat.assume_init() };
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(error(path, Cause::Magic));
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

fn error(path: &CStr, cause: Cause) -> Error {
    Error {
        path: path.to_owned(),
        cause,
    }
}

fn system(path: &CStr, step: &'static str, refused: std::io::Error) -> Error {
    error(path, Cause::System(step, refused))
}

fn last(path: &CStr, step: &'static str) -> Error {
    system(path, step, std::io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;
    use std::os::unix::fs::PermissionsExt;

    /// A group of this test's own, whose file goes when it ends.
    struct Temporary(CString);

    impl Temporary {
        fn new(name: &str) -> Self {
            Self(Group::named(&format!("test-{name}-{}", std::process::id())).path())
        }

        fn path(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(self.path());
        }
    }

    #[test]
    fn two_mappings_share_words_and_anybody_may_open_them() {
        let file = Temporary::new("share");
        assert!(Mapped::open(&file.0).unwrap().is_none());
        let one = Mapped::open_or_create(&file.0).unwrap();
        let two = Mapped::open(&file.0).unwrap().unwrap();
        one.memory[1][2].store(3, Ordering::Relaxed);
        assert_eq!(two.memory[1][2].load(Ordering::Relaxed), 3);
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
    }

    #[test]
    fn a_creator_killed_at_any_step_wedges_nobody() {
        let file = Temporary::new("killed");
        std::fs::write(file.path(), b"").unwrap();
        Mapped::open_or_create(&file.0).unwrap();
        let region = Mapped::open(&file.0).unwrap().unwrap();
        region.header.version.store(0, Ordering::Relaxed);
        region.header.size.store(0, Ordering::Relaxed);
        Mapped::open_or_create(&file.0).unwrap();
        assert_eq!(region.header.version.load(Ordering::Relaxed), VERSION);
    }

    #[test]
    fn another_size_or_version_is_refused_with_the_path() {
        let file = Temporary::new("size");
        std::fs::write(file.path(), b"short").unwrap();
        let refused = Mapped::open_or_create(&file.0).err().unwrap();
        assert!(matches!(refused.cause, Cause::Size(5)));
        assert!(refused.to_string().contains(file.path()));

        let file = Temporary::new("version");
        let region = Mapped::open_or_create(&file.0).unwrap();
        region.header.version.store(99, Ordering::Relaxed);
        let refused = Mapped::open_or_create(&file.0).err().unwrap();
        assert!(matches!(refused.cause, Cause::Version(99)));
        region.header.magic.store(1, Ordering::Relaxed);
        let refused = Mapped::open(&file.0).err().unwrap();
        assert!(matches!(refused.cause, Cause::Magic));
    }

    #[test]
    fn a_link_is_not_followed() {
        let file = Temporary::new("link");
        std::os::unix::fs::symlink("/tmp/nowhere", file.path()).unwrap();
        assert!(Mapped::open_or_create(&file.0).is_err());
    }
}
