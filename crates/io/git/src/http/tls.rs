//! Trust: the system's certificates and those of the remote, checked by ring.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use crate::error::Failure;

/// The TLS configuration with extra certificates in PEM.
pub(super) fn config(ca: Option<&[u8]>) -> Result<ClientConfig, Failure> {
    let extra = match ca {
        None => Vec::new(),
        Some(pem) => certificates(pem)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = match system(&extra, &provider) {
        Ok(config) => config,
        // A machine without certificates of its own can still talk to the remotes that bring theirs.
        Err(error) => {
            tracing::debug!(%error, "the system's certificates cannot be used");
            alone(extra, provider)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Failure::problem("the CA of the remote holds no certificate: PEM is needed")),
        Err(error) => Err(Failure::problem(format!("the CA of the remote is not valid PEM: {error}"))),
    }
}

fn system(
    extra: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<ClientConfig, rustls::Error> {
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra.to_vec(), Arc::clone(provider))?;
    Ok(ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn alone(
    extra: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(extra);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::fault(format!("setting up TLS: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
