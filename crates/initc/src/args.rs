//! The command line.

use std::path::PathBuf;

use clap::Parser;
use grove_api::init_container::POD_INFO_MOUNT_PATH;

use crate::exit;
use crate::parent::Parent;

/// Waits until every PodClique that starts before this pod has enough ready pods.
///
/// Counts the ready pods of the same PodGang, and reads its namespace and the name of the gang from
/// the pod information that is mounted into the container.
#[derive(Debug, Parser)]
#[command(name = "grove-initc", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    /// A PodClique to wait for and how many ready pods it needs, such as web-0-leader:2
    #[arg(
        long = "podcliques",
        short = 'p',
        value_name = "NAME:MIN",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) pod_cliques: Vec<Parent>,

    /// Directory with the pod information, for tests outside a pod.
    #[arg(long, value_name = "DIR", default_value = POD_INFO_MOUNT_PATH, hide = true)]
    pub(crate) pod_info_dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use grove_api::init_container::parent_argument;

    use super::*;

    fn parsed(args: &[&str]) -> Result<Vec<String>, String> {
        let args = [&["grove-initc"], args].concat();
        let arguments = Arguments::try_parse_from(args).map_err(|error| error.to_string())?;
        Ok(arguments.pod_cliques.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn parents_come_one_by_one_or_as_lists() {
        let made = parent_argument("x-0-a", 2);
        let cases: [(&[&str], &[&str]); 5] = [
            (&[&made], &["x-0-a:2"]),
            (&["--podcliques", "x-0-a:2"], &["x-0-a:2"]),
            (&["-p", "x-0-a:2", "-px-0-b:1"], &["x-0-a:2", "x-0-b:1"]),
            (&["--podcliques=x-0-a:2,x-0-b:1"], &["x-0-a:2", "x-0-b:1"]),
            (&["--podcliques=a:1,b:2", "-p", "c:3"], &["a:1", "b:2", "c:3"]),
        ];
        for (args, expected) in cases {
            assert_eq!(parsed(args).unwrap(), expected, "{args:?}");
        }
    }

    #[test]
    fn a_bad_value_is_named_also_inside_a_list() {
        let cases: [(&[&str], &str); 5] = [
            (&[], "--podcliques <NAME:MIN>"),
            (&["--podcliques=x-0-a"], "'x-0-a'"),
            (&["--podcliques=x-0-a:2,x-0-b:0"], "'x-0-b:0'"),
            (&["--podcliques=x-0-a:2,"], "''"),
            (&["-p", "x-0-a:1", "surplus"], "'surplus'"),
        ];
        for (args, named) in cases {
            let error = parsed(args).unwrap_err();
            assert!(error.contains(named), "{args:?}: {error}");
        }
    }
}
