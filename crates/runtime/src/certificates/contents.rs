//! The contents of the Secret: from its data to [`Facts`], and from a [`Step`] to new data.
//!
//! | key           | content                                              |
//! |---------------|------------------------------------------------------|
//! | `tls.crt`     | serving certificate                                  |
//! | `tls.key`     | its key                                              |
//! | `ca.crt`      | every CA that clients must trust, the signer first   |
//! | `ca.key`      | key of the signer                                    |
//! | `ca-next.key` | key of the announced CA, while there is one          |
//!
//! Unreadable values count as missing, so that placeholders and damage are repaired in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::authority::{self, AuthorityName, Issued};
use super::decide::{CaId, Facts, LeafFacts, Schedule, Step, Validity};
use super::pair;

pub(super) const LEAF: &str = "tls.crt";
pub(super) const LEAF_KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
const SIGNER_KEY: &str = "ca.key";
const NEXT_KEY: &str = "ca-next.key";

/// Former CAs kept in the bundle. Only repeated deletion of the Secret reaches the limit, which bounds the
/// size of the webhook configurations.
const MAX_FORMER_CAS: usize = 6;

/// The data of the Secret by key.
pub(super) type Data = BTreeMap<String, ByteString>;

/// The readable part of the Secret and the facts derived from it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) facts: Facts,
    leaf: Option<Issued>,
    signer_key: Option<String>,
    next_key: Option<String>,
}

impl Contents {
    /// Reads the data; the leaf must be valid for all of `names`.
    pub(super) fn read(data: &Data, names: &[String]) -> Self {
        let text = |key: &str| {
            let bytes = &data.get(key)?.0;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let trusted = read_bundle(data.get(BUNDLE));
        let (signer, signer_key) = read_key(text(SIGNER_KEY), &trusted);
        let (next, next_key) = read_key(text(NEXT_KEY), &trusted);
        let leaf = text(LEAF).zip(text(LEAF_KEY));
        let leaf = leaf.map(|(certificate, key)| Issued { certificate, key });
        let leaf = leaf.and_then(|leaf| Some((read_leaf(&leaf, &trusted, names)?, leaf)));
        let (leaf_facts, leaf) = leaf.unzip();
        let facts = Facts { leaf: leaf_facts, trusted, signer, next };
        Self { facts, leaf, signer_key, next_key }
    }

    /// The serving certificate and its key as PEM.
    pub(super) fn leaf(&self) -> Option<(&[u8], &[u8])> {
        self.leaf.as_ref().map(|leaf| (leaf.certificate.as_bytes(), leaf.key.as_bytes()))
    }

    /// Identity of the leaf, to detect a change.
    pub(super) fn leaf_identity(&self) -> Option<&str> {
        self.leaf.as_ref().map(|leaf| leaf.certificate.as_str())
    }

    /// Every trusted CA as PEM, for `caBundle` of the webhook configurations.
    pub(super) fn bundle(&self) -> String {
        let ids = self.facts.trusted.iter().map(|(id, _)| id);
        ids.map(|id| pem_of(&id.0)).collect()
    }

    /// What stays valid when the Secret is deleted: the served certificate and the trusted CAs. The keys
    /// are not reused, because the user may have deleted the Secret to revoke them.
    pub(super) fn without_keys(&self) -> Self {
        let mut kept = self.clone();
        kept.facts.signer = None;
        kept.facts.next = None;
        kept.signer_key = None;
        kept.next_key = None;
        kept
    }

    /// The contents after `step`.
    pub(super) fn after(
        &self,
        step: &Step,
        who: &AuthorityName,
        names: &[String],
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let mut new = self.clone();
        match step {
            Step::Keep => return Ok(new),
            Step::IssueLeaf => {}
            Step::Retire(ids) => {
                new.facts.trusted.retain(|(id, _)| !ids.contains(id));
                return Ok(new);
            }
            Step::Announce => {
                new.announce(who, schedule, now)?;
                return Ok(new);
            }
            Step::Switch => new.switch(),
            Step::Found => {
                new.announce(who, schedule, now)?;
                new.switch();
            }
        }
        new.issue_leaf(names, schedule, now)?;
        Ok(new)
    }

    fn announce(
        &mut self,
        who: &AuthorityName,
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<(), rcgen::Error> {
        let ca = authority::new_ca(who, schedule.ca_valid_for, now)?;
        let read = read_bundle(Some(&ByteString(ca.certificate.clone().into_bytes())));
        let (id, validity) =
            read.into_iter().next().ok_or(rcgen::Error::CouldNotParseCertificate)?;
        self.facts.trusted.push((id.clone(), validity));
        self.facts.next = Some(id);
        self.next_key = Some(ca.key);
        self.bound_former();
        Ok(())
    }

    fn switch(&mut self) {
        self.facts.signer = self.facts.next.take();
        self.signer_key = self.next_key.take();
        // The signer comes first, for human readers.
        let signer = self.facts.signer.clone();
        self.facts.trusted.sort_by_key(|(id, _)| Some(id) != signer.as_ref());
    }

    fn issue_leaf(
        &mut self,
        names: &[String],
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<(), rcgen::Error> {
        let signer = self.facts.signer.as_ref().zip(self.signer_key.as_ref());
        let (id, key) = signer.ok_or(rcgen::Error::CouldNotParseKeyPair)?;
        let ca_ends = self.facts.trusted.iter().find(|(ca, _)| ca == id).map(|ca| ca.1.not_after);
        let not_after = (now + schedule.leaf_valid_for).min(ca_ends.unwrap_or(Timestamp::MAX));
        let ca = CertificateDer::from(id.0.to_vec());
        let leaf = authority::new_leaf(names, &ca, key, not_after, now)?;
        self.facts.leaf = read_leaf(&leaf, &self.facts.trusted, names);
        self.leaf = Some(leaf);
        Ok(())
    }

    /// Drops the oldest former CAs above the limit.
    fn bound_former(&mut self) {
        let issuer = self.facts.leaf.as_ref().and_then(|leaf| leaf.issuer.clone());
        let needed = [self.facts.signer.clone(), self.facts.next.clone(), issuer];
        let former = |id: &CaId| !needed.contains(&Some(id.clone()));
        let count = self.facts.trusted.iter().filter(|(id, _)| former(id)).count();
        let mut surplus = count.saturating_sub(MAX_FORMER_CAS);
        self.facts.trusted.retain(|(id, _)| {
            let drop = surplus > 0 && former(id);
            surplus -= usize::from(drop);
            !drop
        });
    }

    /// The data to store; `None` removes a key.
    pub(super) fn data(&self) -> BTreeMap<&'static str, Option<ByteString>> {
        let bytes = |text: &str| Some(ByteString(text.as_bytes().to_vec()));
        // The type kubernetes.io/tls requires these two keys; they may be empty.
        let leaf = self.leaf.as_ref();
        [
            (LEAF, bytes(leaf.map_or("", |leaf| &leaf.certificate))),
            (LEAF_KEY, bytes(leaf.map_or("", |leaf| &leaf.key))),
            (BUNDLE, bytes(&self.bundle())),
            (SIGNER_KEY, bytes(self.signer_key.as_deref().unwrap_or_default())),
            (NEXT_KEY, self.next_key.as_deref().and_then(bytes)),
        ]
        .into()
    }
}

fn pem_of(certificate: &[u8]) -> String {
    let base64 = match serde_json::to_value(ByteString(certificate.to_vec())) {
        Ok(serde_json::Value::String(base64)) => base64,
        _ => String::new(),
    };
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = tail;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    x509_parser::parse_x509_certificate(der).ok().map(|(_, certificate)| certificate)
}

fn validity(certificate: &X509Certificate<'_>) -> Option<Validity> {
    let validity = certificate.validity();
    Some(Validity {
        not_before: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
        not_after: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
    })
}

/// The CA certificates in the text, without duplicates.
fn read_bundle(pem: Option<&ByteString>) -> Vec<(CaId, Validity)> {
    let mut trusted: Vec<(CaId, Validity)> = Vec::new();
    let pem = pem.map(|pem| pem.0.as_slice()).unwrap_or_default();
    for der in CertificateDer::pem_slice_iter(pem).flatten() {
        let read =
            parse(&der).filter(|certificate| certificate.is_ca()).and_then(|ca| validity(&ca));
        let id = CaId(Arc::from(der.as_ref()));
        if let Some(validity) = read
            && !trusted.iter().any(|(known, _)| *known == id)
        {
            trusted.push((id, validity));
        }
    }
    trusted
}

/// A key and the published CA that it belongs to; `None` if either is missing.
fn read_key(pem: Option<String>, trusted: &[(CaId, Validity)]) -> (Option<CaId>, Option<String>) {
    let found = pem.and_then(|pem| {
        let key = KeyPair::from_pem(&pem).ok()?.subject_public_key_info();
        let fits = |id: &&CaId| parse(&id.0).is_some_and(|ca| ca.public_key().raw == key);
        let id = trusted.iter().map(|(id, _)| id).find(fits)?;
        Some((id.clone(), pem))
    });
    found.unzip()
}

fn read_leaf(leaf: &Issued, trusted: &[(CaId, Validity)], names: &[String]) -> Option<LeafFacts> {
    let pair = pair::certified_key(leaf.certificate.as_bytes(), leaf.key.as_bytes()).ok()?;
    let certificate = parse(pair.cert.first()?)?;
    let signed_by = |id: &CaId| {
        parse(&id.0).is_some_and(|ca| {
            ca.subject() == certificate.issuer()
                && certificate.verify_signature(Some(ca.public_key())).is_ok()
        })
    };
    let issuer = trusted.iter().map(|(id, _)| id).find(|id| signed_by(id)).cloned();
    let certified = certified_names(&certificate);
    let names_complete = names.iter().all(|name| certified.contains(&name.to_lowercase()));
    Some(LeafFacts { validity: validity(&certificate)?, issuer, names_complete })
}

fn certified_names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_lowercase()),
            GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
            _ => None,
        })
        .collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests;
