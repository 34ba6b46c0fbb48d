//! `grove completion`: scripts that let a shell complete the command line.

use clap::{CommandFactory as _, ValueEnum};
use clap_complete::Shell as Generator;

use crate::args::Arguments;

/// A shell that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    let generator = match shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut Arguments::command(), "grove", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for word in ["rollout", "validate", "all-namespaces"] {
                assert!(script.contains(word), "{shell:?}: {word}");
            }
        }
    }
}
