//! How a command ends when it does not end well.

use std::process::ExitCode;

/// Why a command stops. Each kind has an exit code that scripts may rely on; 0 is success.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// 1: the command ran and the answer is bad news, already printed.
    #[error("")]
    Failed,
    /// 1: something went wrong on the way.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
    /// 2: the command line or a variable makes no sense. The text says what would.
    #[error("{0}")]
    Usage(String),
    /// 3: what was asked for does not exist.
    #[error("{0}")]
    NotFound(String),
    /// 4: there is no daemon at the socket.
    #[error("{0}")]
    Unreachable(String),
    /// 126 and 127, as a shell reports a program that cannot be run or does not exist.
    #[error("{text}")]
    Program {
        /// The code of the shell's convention.
        code: u8,
        /// What to print.
        text: String,
    },
}

impl Stop {
    /// The exit code of this end.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Failed | Self::Other(_) => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::Unreachable(_) => 4,
            Self::Program { code, .. } => *code,
        }
    }

    /// Prints the reason, if it is not printed yet, and gives the code to end with.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        let text = self.to_string();
        if !text.is_empty() {
            eprintln!("quota-daemon: {text}");
        }
        ExitCode::from(self.code())
    }
}
