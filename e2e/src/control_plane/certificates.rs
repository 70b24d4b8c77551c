//! The keys of one control plane: a CA, the API server's
//! serving certificate, client certificates of the components, and the key
//! that signs service-account tokens. All ECDSA P-256, made in code.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::error::{Result, Step};

/// Makes certificates and writes them, with their keys, into one folder.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// PEM of the certificate.
    pub certificate: PathBuf,
    /// PEM of its private key.
    pub key: PathBuf,
}

impl Authority {
    /// Makes the CA and the service-account key in `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).step(|| format!("making {}", folder.display()))?;
        let mut params = CertificateParams::new(Vec::new())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "leasehold test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        write_private(&folder.join("ca.crt"), &certificate.pem())?;

        let accounts = KeyPair::generate()?;
        write_private(&folder.join("accounts.key"), &accounts.serialize_pem())?;
        write_private(&folder.join("accounts.pub"), &accounts.public_key_pem())?;
        Ok(Self {
            folder: folder.to_owned(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The CA's certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The key that signs service-account tokens.
    pub fn accounts_key(&self) -> PathBuf {
        self.folder.join("accounts.key")
    }

    /// Its public half, which checks them.
    pub fn accounts_public(&self) -> PathBuf {
        self.folder.join("accounts.pub")
    }

    /// A certificate for a server reached under `names` (DNS names and addresses).
    pub fn server(&self, file: &str, names: &[&str]) -> Result<CertificateFiles> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(file, params)
    }

    /// The same, out of date since long ago.
    pub fn expired_server(&self, file: &str, names: &[&str]) -> Result<CertificateFiles> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = (
            rcgen::date_time_ymd(2020, 1, 1),
            rcgen::date_time_ymd(2021, 1, 1),
        );
        self.issue(file, params)
    }

    /// A certificate for a client: to Kubernetes its common name is the user,
    /// its organisation the group.
    pub fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<CertificateFiles> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, params)
    }

    fn issue(&self, file: &str, mut params: CertificateParams) -> Result<CertificateFiles> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .step(|| format!("signing the certificate of {file}"))?;
        let files = CertificateFiles {
            certificate: self.folder.join(format!("{file}.crt")),
            key: self.folder.join(format!("{file}.key")),
        };
        write_private(&files.certificate, &certificate.pem())?;
        write_private(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

/// Writes a file only its owner can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let writing = || format!("writing {}", path.display());
    let mut file = std::fs::File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .step(writing)?;
    file.write_all(text.as_bytes()).step(writing)
}
