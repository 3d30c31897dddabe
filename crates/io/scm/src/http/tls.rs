//! Whom we trust: the system's certificate authorities and the ones a user names.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::Error;

/// A TLS configuration that trusts the system's authorities and those in `ca` (PEM).
pub(super) fn config(ca: Option<&[u8]>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::debug!(%error, "a certificate authority of the system cannot be read");
    }
    roots.add_parsable_certificates(system.certs);
    let unusable = |what: String| {
        Error::problem(format!(
            "the certificate authority in the Secret that `spec.git.secretRef` names cannot be used: {what}; \
             `ca.crt` must hold PEM certificates"
        ))
    };
    if let Some(ca) = ca {
        let mut found = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(ca) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(unusable("there is no certificate in it".to_owned()));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::fault(format!("cannot set up TLS: {error}")))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
