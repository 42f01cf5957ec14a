//! JSON lines over a stream, bounded in length and in time, for both sides of the control socket.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum NoLine {
    /// It is longer than may be.
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// It did not come, or not to its end.
    #[error("no whole line came in time")]
    Late,
    /// The stream broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A stream of lines.
#[derive(Debug)]
pub struct Lines {
    stream: UnixStream,
    /// What has come and is no whole line yet.
    buffer: Vec<u8>,
    /// The longest line.
    most: usize,
}

impl Lines {
    /// Lines of at most `most` bytes.
    #[must_use]
    pub fn new(stream: UnixStream, most: usize) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            most,
        }
    }

    /// The next line; `None` at the end of the stream. `idle` bounds the time to its first byte, `whole` that from there to
    /// its end, however the bytes trickle in.
    ///
    /// # Errors
    /// When it does not come.
    pub fn next(&mut self, idle: Duration, whole: Duration) -> Result<Option<Vec<u8>>, NoLine> {
        let begun = !self.buffer.is_empty();
        let mut deadline = Instant::now() + if begun { whole } else { idle };
        let mut begun = begun;
        let mut looked = 0;
        loop {
            let fresh = self.buffer.get(looked..).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=looked + end).collect();
                line.pop();
                return Ok(Some(line));
            }
            looked = self.buffer.len();
            if looked > self.most {
                return Err(NoLine::TooLong(self.most));
            }
            if self.fill(deadline)? == 0 {
                return Ok(None);
            }
            if !begun {
                begun = true;
                deadline = Instant::now() + whole;
            }
        }
    }

    /// Reads what is there, or waits until something is.
    fn fill(&mut self, deadline: Instant) -> Result<usize, NoLine> {
        let mut chunk = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoLine::Late);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut chunk) {
                Ok(count) => {
                    self.buffer
                        .extend_from_slice(chunk.get(..count).unwrap_or_default());
                    return Ok(count);
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(NoLine::Late),
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The other side is gone, or has not read for `patience`.
    pub fn write(&mut self, line: &str, patience: Duration) -> std::io::Result<()> {
        self.stream.set_write_timeout(Some(patience))?;
        self.stream.write_all(line.as_bytes())?;
        self.stream.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(30);

    fn pair() -> (UnixStream, Lines) {
        let (one, other) = UnixStream::pair().unwrap();
        (one, Lines::new(other, 10))
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let (mut peer, mut lines) = pair();
        peer.write_all(b"ab\ncd").unwrap();
        assert_eq!(lines.next(LONG, LONG).unwrap().unwrap(), b"ab");
        assert!(matches!(lines.next(SHORT, SHORT), Err(NoLine::Late)));
        peer.write_all(b"e\n\n").unwrap();
        assert_eq!(lines.next(LONG, LONG).unwrap().unwrap(), b"cde");
        assert_eq!(lines.next(LONG, LONG).unwrap().unwrap(), b"");
        drop(peer);
        assert!(lines.next(LONG, LONG).unwrap().is_none());
    }

    #[test]
    fn a_line_without_an_end_is_not_read_on() {
        let (mut peer, mut lines) = pair();
        peer.write_all(&[b'x'; 100]).unwrap();
        assert!(matches!(lines.next(LONG, LONG), Err(NoLine::TooLong(10))));
    }

    #[test]
    fn a_line_that_trickles_is_late() {
        let (mut peer, mut lines) = pair();
        let drip = std::thread::spawn(move || {
            while peer
                .write_all(b"")
                .and_then(|()| peer.write_all(b"x"))
                .is_ok()
            {
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        assert!(lines.next(LONG, Duration::from_millis(100)).is_err());
        drop(lines);
        drip.join().unwrap();
    }
}
