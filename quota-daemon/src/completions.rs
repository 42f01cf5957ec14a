//! `quota-daemon completions`: what a shell asks for to complete this command line.

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::output::print;

/// The name that is completed.
const NAME: &str = "quota-daemon";

/// Prints the script for `shell`.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(shell: Shell, command: &Command) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut shown(command), NAME, &mut bytes);
    let script = String::from_utf8(bytes).context("the script is not text")?;
    print(&match shell {
        Shell::Bash => agree(&script),
        _ => script,
    })
}

/// The command without what its help hides.
#[must_use]
pub fn shown(command: &Command) -> Command {
    let subcommands = command.get_subcommands();
    Command::new(NAME)
        .about(command.get_about().cloned().unwrap_or_default())
        .after_help(command.get_after_help().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(subcommands.filter(|one| !one.is_hide_set()).cloned())
}

/// The generator writes the `-` of our name in two ways, so that what the script finds on the line is none of the cases
/// that it then looks among. One way for both.
fn agree(script: &str) -> String {
    let name = NAME.replace('-', "__");
    let other = NAME.replace('-', "__subcmd__");
    script.replace(&other, &name)
}
