//! Creates keys and certificates. Keys are elliptic-curve keys (P-256): every client supports them, and
//! creating one takes microseconds instead of the seconds of RSA.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;

/// Certificates are valid from this long before they are issued, because the clocks of API servers differ.
const BACKDATED: Duration = Duration::from_secs(3600);
/// The longest common name that X.509 allows.
const MAX_COMMON_NAME_CHARS: usize = 64;

/// Names in CA certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityName {
    /// Common name.
    pub common_name: String,
    /// Organisation.
    pub organization: String,
}

/// A certificate with its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Creates a self-signed CA.
pub(super) fn new_ca(
    name: &AuthorityName,
    valid_for: Duration,
    now: Timestamp,
) -> Result<Issued, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, short(&name.common_name));
    params.distinguished_name.push(DnType::OrganizationName, short(&name.organization));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, now, now + valid_for);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Creates a serving certificate for `names` (DNS names and addresses), signed by the CA with `ca_key`. It
/// expires no later than its CA.
pub(super) fn new_leaf(
    names: &[String],
    ca: &CertificateDer<'_>,
    ca_key: &str,
    not_after: Timestamp,
    now: Timestamp,
) -> Result<Issued, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_der(ca, KeyPair::from_pem(ca_key)?)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(name) = names.first() {
        params.distinguished_name.push(DnType::CommonName, short(name));
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Clients may trust two CAs of the same name; the identifier selects the right one.
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, not_after);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn short(name: &str) -> String {
    name.chars().take(MAX_COMMON_NAME_CHARS).collect()
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, not_after: Timestamp) {
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = at(now - BACKDATED);
    params.not_after = at(not_after);
}
