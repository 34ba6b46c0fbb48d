//! Options of a control plane.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::tools::{Kube, Part};

/// Which workload-scheduling features are on; the exact flags are in [`super::gates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Gates {
    /// Every gate and API version that gang scheduling can use.
    #[default]
    All,
    /// Gang scheduling, with as few alpha features as possible.
    Cautious,
    /// The defaults of Kubernetes: no workload API.
    Defaults,
}

/// Which programs to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Parts {
    /// etcd and kube-apiserver: objects are stored and validated, but no controller runs.
    ApiServer,
    /// Also kube-controller-manager, kube-scheduler and KWOK.
    #[default]
    Full,
}

impl Parts {
    /// The programs to run, and `kubectl`.
    pub fn programs(self, kube: Kube) -> Vec<Part> {
        match self {
            Self::ApiServer => vec![Part::Etcd, Part::ApiServer(kube), Part::Kubectl(kube)],
            Self::Full => Part::all(kube),
        }
    }
}

/// Rate limits of the controller manager's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientLimits {
    /// Higher than this machine can reach.
    #[default]
    Raised,
    /// The defaults of Kubernetes: 20 requests per second and controller.
    Defaults,
}

/// Options of an instance.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Kubernetes version.
    pub kube: Kube,
    /// Features.
    pub gates: Gates,
    /// Processes.
    pub parts: Parts,
    /// Limits of the controller manager.
    pub controller_manager_limits: ClientLimits,
    /// Whether the API server logs every write, see [`super::Cluster::audit_log`].
    pub audit: bool,
    /// Additional flags for kube-apiserver; they come last and take precedence.
    pub api_server_flags: Vec<String>,
}

// === impl names on the command line ===

impl fmt::Display for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Cautious => "cautious",
            Self::Defaults => "defaults",
        })
    }
}

impl FromStr for Gates {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all" => Ok(Self::All),
            "cautious" => Ok(Self::Cautious),
            "defaults" => Ok(Self::Defaults),
            _ => bail!("gates are `all`, `cautious` or `defaults`"),
        }
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServer => "api",
            Self::Full => "full",
        })
    }
}

impl FromStr for Parts {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "api" => Ok(Self::ApiServer),
            "full" => Ok(Self::Full),
            _ => bail!("parts are `api` or `full`"),
        }
    }
}

impl FromStr for Kube {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|kube| text == kube.minor() || text == kube.version()) {
            Some(kube) => Ok(kube),
            None => bail!("Kubernetes versions are `1.37` and `1.36`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_command_line_are_parsed() {
        for gates in [Gates::All, Gates::Cautious, Gates::Defaults] {
            assert_eq!(gates.to_string().parse::<Gates>().unwrap(), gates);
        }
        for parts in [Parts::ApiServer, Parts::Full] {
            assert_eq!(parts.to_string().parse::<Parts>().unwrap(), parts);
        }
        for kube in Kube::ALL {
            assert_eq!(kube.minor().parse::<Kube>().unwrap(), kube);
            assert_eq!(kube.version().parse::<Kube>().unwrap(), kube);
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_ones() {
        let error = "1.35".parse::<Kube>().unwrap_err().to_string();
        assert_eq!(error, "Kubernetes versions are `1.37` and `1.36`");
        assert!("most".parse::<Gates>().is_err());
        assert!("half".parse::<Parts>().is_err());
    }
}
