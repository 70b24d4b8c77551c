//! A server that must prove who it is.

use std::time::Duration;

use leasehold_e2e::control_plane::certificates::Authority;
use leasehold_e2e::error::Result;
use leasehold_e2e::wait;
use leasehold_operator::backend::postgres::{Endpoint, Server, Tls, TlsMode};
use leasehold_operator::backend::{BackendError, Slot};

use crate::ground::{Ground, PATIENCE, error, pair, subject};

/// How long a server may take to read a changed certificate.
const READ_MAX: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_certificate_is_checked_as_far_as_the_mode_says() -> Result<()> {
    let ground = Ground::start().await?;
    let folder = tempfile::tempdir()?;
    let (ours, other) = (folder.path().join("ours"), folder.path().join("other"));
    let (authority, stranger) = (Authority::create(&ours)?, Authority::create(&other)?);
    // Without TLS there is nobody to check.
    let ca = std::fs::read_to_string(authority.ca())?;
    let wrong_ca = std::fs::read_to_string(stranger.ca())?;
    let server = |host: &str, mode, ca: Option<&String>| {
        let endpoint = Endpoint {
            host: host.to_owned(),
            tls: Tls {
                mode,
                ca: ca.cloned(),
            },
            ..ground.endpoint()
        };
        Server::new(endpoint, ground.admin.clone()).patient(PATIENCE)
    };
    let subject = subject("billing");
    let plain = server("127.0.0.1", TlsMode::Require, None);
    let refused = error(plain.look(&subject).await);
    assert!(
        matches!(refused, BackendError::Unreachable { .. }),
        "{refused}"
    );

    let files = authority.server("postgres", &["localhost"])?;
    match ground.server.offer_tls(&files).await {
        Err(error) if error.mentions("not supported by this build") => {
            println!("not tried: this build of Postgres knows no TLS");
            return Ok(());
        }
        outcome => outcome?,
    }
    let full = server("localhost", TlsMode::VerifyFull, Some(&ca));
    let pair = pair();
    full.provision(&subject).await?;
    full.set_login(&subject, 1, &pair.verifier).await?;
    full.verify(&subject, Slot::A, &pair.password).await?;
    let encrypted = "SELECT count(*)::text FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE s.ssl AND a.application_name = 'leasehold-operator'";
    assert_ne!(ground.ask(encrypted).await?, "0");
    let findings = full.preflight().await;
    let tls = findings
        .iter()
        .find(|finding| finding.condition == "TlsVerified");
    assert_eq!(
        tls.and_then(|finding| finding.is_met),
        Some(true),
        "{findings:?}"
    );

    for (host, mode, ca) in [
        ("127.0.0.1", TlsMode::VerifyFull, Some(&ca)), // another name than the certificate's
        ("localhost", TlsMode::VerifyFull, Some(&wrong_ca)),
        ("localhost", TlsMode::VerifyFull, None),
        ("localhost", TlsMode::VerifyCa, Some(&wrong_ca)),
    ] {
        let operator = server(host, mode, ca);
        let refused = error(operator.look(&subject).await);
        assert!(
            matches!(refused, BackendError::Unreachable { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains("certificate"), "{refused}");
        let findings = operator.preflight().await;
        let reached = findings
            .iter()
            .find(|finding| finding.condition == "Reachable");
        assert_eq!(
            reached.map(|finding| finding.reason),
            Some("TlsFailed"),
            "{findings:?}"
        );
    }
    server("127.0.0.1", TlsMode::VerifyCa, Some(&ca))
        .look(&subject)
        .await?;
    server("127.0.0.1", TlsMode::Require, None)
        .look(&subject)
        .await?;

    // One that nobody renewed, and then did.
    let looks = async || {
        let operator = server("localhost", TlsMode::VerifyFull, Some(&ca));
        operator.look(&subject).await
    };
    let expired = authority.expired_server("expired", &["localhost"])?;
    ground.server.offer_tls(&expired).await?;
    wait::until_true("a certificate that is refused", READ_MAX, || async {
        let refused = looks().await;
        Ok(refused.is_err_and(|error| error.to_string().contains("expired")))
    })
    .await?;
    ground.server.offer_tls(&files).await?;
    wait::until_true("a certificate that is good again", READ_MAX, || async {
        Ok(looks().await.is_ok())
    })
    .await
}
