//! Certificates of one instance: an authority, one serving certificate, and client certificates.
//!
//! They are created at the start and removed with the instance directory, so none expires or rotates. All
//! servers share the serving certificate, because all listen on loopback.

use anyhow::{Context, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

/// The object identifier of an organisation, as numbers. The certificate library keeps one value per
/// attribute type and treats this as another type than its named one, so that a subject can have two
/// organisations.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// Certificate and key, both as PEM text.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The certificate authority of an instance.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Creates an authority.
    pub(crate) fn generate() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject("grove-test-authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .context("cannot create a certificate authority")?;
        Ok(Self(issuer))
    }

    /// The certificate of the authority.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for servers on loopback.
    pub(crate) fn serving(&self) -> Result<Identity> {
        let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()])?;
        params.distinguished_name = subject("localhost", &[])?;
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate for `user` in `groups`.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(user, groups)?;
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0).context("cannot sign a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// A key pair for service account tokens: private key, then public key.
pub(crate) fn signing_pair() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn subject(name: &str, groups: &[&str]) -> Result<DistinguishedName> {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    match groups {
        [] => {}
        [one] => subject.push(DnType::OrganizationName, *one),
        [one, two] => {
            subject.push(DnType::OrganizationName, *one);
            subject.push(DnType::CustomDnType(ORGANIZATION.to_vec()), *two);
        }
        more => bail!("user {name} has {} groups; a client certificate takes two", more.len()),
    }
    Ok(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_group_is_refused_by_name() {
        let authority = Authority::generate().unwrap();
        assert!(authority.client("alice", &["a", "b"]).is_ok());
        let error = authority.client("alice", &["a", "b", "c"]).unwrap_err().to_string();
        assert_eq!(error, "user alice has 3 groups; a client certificate takes two");
    }
}
