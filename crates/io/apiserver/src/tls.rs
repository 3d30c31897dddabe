//! The certificate authority and the server's certificate, made once and kept under `DIR/pki`.
//!
//! Certificates use the computer's clock and not the injected one: their readers judge them by real time.

use std::path::Path;
use std::sync::Arc;

use jiff::{ToSpan, Zoned, civil::Date};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::{ensure_dir, read_optional, write_private};

const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const CA_YEARS: i32 = 10;
const SERVER_YEARS: i32 = 2;
const RENEW_DAYS: i32 = 90;

/// The certificates one server presents.
#[derive(Debug, Clone)]
pub(crate) struct Pki {
    /// The authority's certificate, for kubeconfigs.
    pub(crate) ca_pem: String,
    server_pem: String,
    server_key_pem: String,
}

/// How long the stored certificates hold and which names they carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Validity {
    ca: Date,
    server: Date,
    names: Vec<String>,
}

impl Pki {
    /// Certificates that live in memory only.
    pub(crate) fn ephemeral(extra_names: &[String]) -> Result<Pki, Error> {
        let today = Zoned::now().date();
        let ca_key = KeyPair::generate().map_err(tls)?;
        let ca_pem = sign_ca(&ca_key, today)?;
        let (server_pem, server_key_pem) = sign_server(ca_key, today, &names(extra_names))?;
        Ok(Pki { ca_pem, server_pem, server_key_pem })
    }

    /// The certificates of a data directory: reused while they hold, renewed when they are missing or near their end.
    pub(crate) fn load_or_create(dir: &Path, extra_names: &[String]) -> Result<Pki, Error> {
        Pki::load_or_create_on(dir, extra_names, Zoned::now().date())
    }

    fn load_or_create_on(dir: &Path, extra_names: &[String], today: Date) -> Result<Pki, Error> {
        let pki = dir.join("pki");
        ensure_dir(&pki)?;
        let names = names(extra_names);
        let limit = after(today, RENEW_DAYS.days());
        let validity: Option<Validity> =
            read_optional(&pki.join("validity.json"))?.and_then(|text| serde_json::from_str(&text).ok());
        let ca_holds = validity.as_ref().is_some_and(|v| v.ca > limit);
        let stored_ca = if ca_holds { load_ca(&pki)? } else { None };
        let (ca_pem, ca_key, ca_is_new) = match stored_ca {
            Some((pem, key)) => (pem, key, false),
            None => {
                let key = KeyPair::generate().map_err(tls)?;
                (sign_ca(&key, today)?, key, true)
            }
        };
        let server_holds = validity.as_ref().is_some_and(|v| v.server > limit && v.names == names);
        if server_holds && !ca_is_new {
            let certificate = read_optional(&pki.join("server.crt"))?;
            let key = read_optional(&pki.join("server.key"))?;
            if let (Some(server_pem), Some(server_key_pem)) = (certificate, key) {
                let stored = Pki { ca_pem: ca_pem.clone(), server_pem, server_key_pem };
                if stored.server_config().is_ok() {
                    return Ok(stored);
                }
            }
        }
        let ca_key_pem = ca_key.serialize_pem();
        let (server_pem, server_key_pem) = sign_server(ca_key, today, &names)?;
        if ca_is_new {
            write_private(&pki.join("ca.key"), ca_key_pem.as_bytes())?;
            write_private(&pki.join("ca.crt"), ca_pem.as_bytes())?;
        }
        write_private(&pki.join("server.key"), server_key_pem.as_bytes())?;
        write_private(&pki.join("server.crt"), server_pem.as_bytes())?;
        let ca = match (&validity, ca_is_new) {
            (Some(old), false) => old.ca,
            _ => after(today, CA_YEARS.years()),
        };
        let validity = Validity { ca, server: after(today, SERVER_YEARS.years()), names };
        let text = serde_json::to_vec(&validity).map_err(|error| Error::Tls(error.to_string()))?;
        write_private(&pki.join("validity.json"), &text)?;
        Ok(Pki { ca_pem, server_pem, server_key_pem })
    }

    /// What the TLS acceptor needs: HTTP/2 is offered first, then HTTP/1.1.
    pub(crate) fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, Error> {
        let chain = CertificateDer::pem_slice_iter(self.server_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::Tls(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key_pem.as_bytes())
            .map_err(|error| Error::Tls(error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| Error::Tls(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn load_ca(pki: &Path) -> Result<Option<(String, KeyPair)>, Error> {
    let certificate = read_optional(&pki.join("ca.crt"))?;
    let key = read_optional(&pki.join("ca.key"))?.and_then(|text| KeyPair::from_pem(&text).ok());
    Ok(certificate.zip(key))
}

fn names(extra: &[String]) -> Vec<String> {
    NAMES.iter().map(|name| (*name).to_owned()).chain(extra.iter().cloned()).collect()
}

fn tls(error: rcgen::Error) -> Error {
    Error::Tls(error.to_string())
}

fn after(day: Date, span: jiff::Span) -> Date {
    day.checked_add(span).unwrap_or(Date::MAX)
}

fn set_validity(params: &mut CertificateParams, today: Date, until: Date) {
    // Two days back: a client in another time zone or with a slow clock must not see a certificate of tomorrow.
    let (year, month, day) = parts(today.checked_sub(2.days()).unwrap_or(today));
    params.not_before = rcgen::date_time_ymd(year, month, day);
    let (year, month, day) = parts(until);
    params.not_after = rcgen::date_time_ymd(year, month, day);
}

fn parts(day: Date) -> (i32, u8, u8) {
    (i32::from(day.year()), u8::try_from(day.month()).unwrap_or(1), u8::try_from(day.day()).unwrap_or(1))
}

fn ca_params(today: Date) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kardinal CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, today, after(today, CA_YEARS.years()));
    params
}

fn sign_ca(key: &KeyPair, today: Date) -> Result<String, Error> {
    Ok(ca_params(today).self_signed(key).map_err(tls)?.pem())
}

fn sign_server(ca_key: KeyPair, today: Date, names: &[String]) -> Result<(String, String), Error> {
    let key = KeyPair::generate().map_err(tls)?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(tls)?;
    params.distinguished_name.push(DnType::CommonName, "kardinal");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, today, after(today, SERVER_YEARS.years()));
    // The issuer is rebuilt from the same name and key as the stored authority, so old and new leaves chain alike.
    let issuer = Issuer::new(ca_params(today), ca_key);
    let certificate = params.signed_by(&key, &issuer).map_err(tls)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn certificates_are_reused_and_renewed_near_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let make = |names: &[String], day| Pki::load_or_create_on(dir.path(), names, day).unwrap();
        let first = make(&[], date(2030, 1, 1));
        let again = make(&[], date(2031, 6, 1));
        assert_eq!((&first.ca_pem, &first.server_pem), (&again.ca_pem, &again.server_pem));
        let renewed = make(&[], date(2031, 12, 1));
        assert_eq!(first.ca_pem, renewed.ca_pem);
        assert_ne!(first.server_pem, renewed.server_pem);
        let renamed = make(&["host.example".to_owned()], date(2031, 12, 1));
        assert_ne!(renamed.server_pem, renewed.server_pem);
        let replaced = make(&[], date(2039, 12, 1));
        assert_ne!(first.ca_pem, replaced.ca_pem);
        replaced.server_config().unwrap();
    }

    #[test]
    fn a_damaged_key_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::load_or_create_on(dir.path(), &[], date(2030, 1, 1)).unwrap();
        std::fs::write(dir.path().join("pki/server.key"), "not a key").unwrap();
        let second = Pki::load_or_create_on(dir.path(), &[], date(2030, 1, 2)).unwrap();
        assert_eq!(first.ca_pem, second.ca_pem);
        second.server_config().unwrap();
    }
}
