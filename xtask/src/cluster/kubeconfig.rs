//! Kubeconfig files.
//!
//! Written as JSON, which every YAML parser accepts, with certificates in files next to it.

use std::path::Path;

use serde_json::{Value, json};

/// The contents of a kubeconfig.
pub(crate) struct Kubeconfig<'a> {
    pub(crate) server: &'a str,
    pub(crate) authority: &'a Path,
    pub(crate) credential: Credential<'a>,
}

/// How a client authenticates.
pub(crate) enum Credential<'a> {
    Certificate { certificate: &'a Path, key: &'a Path },
    Token(&'a str),
}

impl Kubeconfig<'_> {
    /// Returns the document.
    pub(crate) fn to_json(&self) -> Value {
        let user = match self.credential {
            Credential::Certificate { certificate, key } => {
                json!({ "client-certificate": certificate, "client-key": key })
            }
            Credential::Token(token) => json!({ "token": token }),
        };
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "grove",
                "cluster": { "server": self.server, "certificate-authority": self.authority },
            }],
            "users": [{ "name": "grove", "user": user }],
            "contexts": [{
                "name": "grove",
                "context": { "cluster": "grove", "user": "grove", "namespace": "default" },
            }],
            "current-context": "grove",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_context_names_the_server_and_the_credential() {
        let config = |credential| {
            let authority = Path::new("/i/ca.crt");
            Kubeconfig { server: "https://127.0.0.1:6443", authority, credential }.to_json()
        };
        let by_token = config(Credential::Token("secret"));
        assert_eq!(by_token["users"][0]["user"], json!({ "token": "secret" }));
        let config = config(Credential::Certificate {
            certificate: Path::new("/i/alice.crt"),
            key: Path::new("/i/alice.key"),
        });
        let context = &config["contexts"][0];
        assert_eq!(config["current-context"], context["name"]);
        assert_eq!(context["context"]["cluster"], config["clusters"][0]["name"]);
        assert_eq!(context["context"]["user"], config["users"][0]["name"]);
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority"], "/i/ca.crt");
        assert_eq!(config["users"][0]["user"]["client-certificate"], "/i/alice.crt");
        assert_eq!(config["users"][0]["user"]["client-key"], "/i/alice.key");
    }
}
