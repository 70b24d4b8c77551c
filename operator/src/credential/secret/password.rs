//! Passwords and what a server keeps of them.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_crds::cluster_service::BackendKind;
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use ring::{digest, hmac, pbkdf2};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::backend::Verifier;

/// Letters and digits, about 190 bits; every client takes them as they are.
pub const LENGTH: usize = 32;
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// What our SCRAM verifiers have; another number in a Secret is an edit, and could cost minutes.
const ITERATIONS: u32 = 4096;
const SALT: usize = 16;

/// Why the operating system gave no random bytes.
pub type NoRandomness = <OsRng as rand::TryRngCore>::Error;

/// A password and its verifier. The verifier is made once: with another salt it would be another one,
/// and a pooler would refuse the clients of the first (C6).
#[derive(Clone, Debug)]
pub struct Made {
    /// In the clear, for the Secret alone.
    pub password: SecretString,
    /// For the Secret and the server.
    pub verifier: Verifier,
}

impl Made {
    /// A new one, from the generator of the operating system.
    pub fn new(backend: BackendKind) -> Result<Self, NoRandomness> {
        let password = random()?;
        let verifier = verifier_of(backend, &password);
        Ok(Self { password, verifier })
    }
}

fn random() -> Result<SecretString, NoRandomness> {
    let mut password = String::with_capacity(LENGTH); // never grows, so no copy of it stays behind
    let mut bytes = Zeroizing::new([0_u8; 2 * LENGTH]);
    while password.len() < LENGTH {
        OsRng.try_fill_bytes(bytes.as_mut_slice())?;
        // 248 is the largest multiple of 62 in a byte: above it some letters would be likelier.
        let fair = bytes.iter().filter(|byte| **byte < 248);
        let letters = fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
        password.extend(letters.take(LENGTH - password.len()));
    }
    Ok(SecretString::from(password))
}

fn verifier_of(backend: BackendKind, password: &SecretString) -> Verifier {
    let clear = password.expose_secret().as_bytes();
    let verifier = match backend {
        BackendKind::Postgres => postgres_protocol::password::scram_sha_256(clear),
        BackendKind::Redis => sha256(clear),
    };
    Verifier(SecretString::from(verifier))
}

/// Is this the password that the verifier was made of?
pub fn matches(backend: BackendKind, password: &str, verifier: &str) -> bool {
    match backend {
        BackendKind::Postgres => matches_scram(password, verifier).unwrap_or(false),
        BackendKind::Redis => sha256(password.as_bytes()) == verifier,
    }
}

/// Lower-case hex, as Redis wants it.
fn sha256(clear: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(clear) {
        let _ = write!(hex, "{byte:02x}"); // writing to a String cannot fail
    }
    hex
}

/// `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`, all but the first in base64. Passwords
/// of ours are ASCII, which SASLprep leaves as it is; others do not match, and are replaced.
fn matches_scram(password: &str, verifier: &str) -> Option<bool> {
    let rest = verifier.strip_prefix("SCRAM-SHA-256$")?;
    let (parameters, keys) = rest.split_once('$')?;
    let (iterations, salt) = parameters.split_once(':')?;
    let (stored_key, server_key) = keys.split_once(':')?;
    let salt = STANDARD
        .decode(salt)
        .ok()
        .filter(|salt| salt.len() == SALT)?;
    let iterations: u32 = iterations
        .parse()
        .ok()
        .filter(|count| *count == ITERATIONS)?;
    let (stored_key, server_key) = (
        STANDARD.decode(stored_key).ok()?,
        STANDARD.decode(server_key).ok()?,
    );

    let mut salted = Zeroizing::new([0_u8; digest::SHA256_OUTPUT_LEN]);
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        NonZeroU32::new(iterations)?,
        &salt,
        password.as_bytes(),
        salted.as_mut_slice(),
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, salted.as_slice());
    let client_key = hmac::sign(&key, b"Client Key");
    let of_client = digest::digest(&digest::SHA256, client_key.as_ref());
    let is_server_key = hmac::verify(&key, b"Server Key", &server_key).is_ok();
    Some(is_server_key && of_client.as_ref() == stored_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_32_letters_and_digits_and_never_the_same() {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let password = random().unwrap();
            let clear = password.expose_secret();
            assert_eq!(clear.len(), LENGTH);
            assert!(clear.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert!(seen.insert(clear.to_owned()));
        }
        let letters: std::collections::BTreeSet<char> =
            seen.iter().flat_map(|text| text.chars()).collect();
        assert_eq!(letters.len(), 62, "some letters never come");
    }

    #[test]
    fn a_made_password_matches_its_verifier_and_no_other() {
        for backend in BackendKind::ALL {
            let (one, two) = (Made::new(backend).unwrap(), Made::new(backend).unwrap());
            let (clear, kept) = (one.password.expose_secret(), one.verifier.0.expose_secret());
            assert!(matches(backend, clear, kept));
            assert!(!matches(backend, two.password.expose_secret(), kept));
            assert!(!matches(backend, clear, two.verifier.0.expose_secret()));
            assert!(!matches(backend, "", kept) && !matches(backend, clear, ""));
        }
    }

    #[test]
    fn a_verifier_has_the_iterations_and_the_salt_that_servers_expect() {
        let made = Made::new(BackendKind::Postgres).unwrap();
        let verifier = made.verifier.0.expose_secret();
        let (head, salt) = verifier.split('$').nth(1).unwrap().split_once(':').unwrap();
        assert_eq!((head, STANDARD.decode(salt).unwrap().len()), ("4096", SALT));
        let made = Made::new(BackendKind::Redis).unwrap();
        assert_eq!(made.verifier.0.expose_secret().len(), 64);
    }

    #[test]
    fn a_verifier_that_a_server_made_is_recognised() {
        // PostgreSQL's own, of the test vectors in RFC 7677: user "user", password "pencil".
        let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert!(matches(BackendKind::Postgres, "pencil", verifier));
        assert!(!matches(BackendKind::Postgres, "pencils", verifier));
    }

    #[test]
    fn an_edited_verifier_costs_nothing_and_matches_nothing() {
        for edited in [
            "SCRAM-SHA-256$4294967295:W22ZaJ0SNY7soEsUEjb6gQ==$AAAA:AAAA",
            "SCRAM-SHA-256$4096:AA==$AAAA:AAAA",
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$",
            "md5abc",
            "SCRAM-SHA-256$",
        ] {
            assert!(
                !matches(BackendKind::Postgres, "pencil", edited),
                "{edited}"
            );
        }
    }

    #[test]
    fn nothing_made_shows_itself() {
        let made = Made::new(BackendKind::Postgres).unwrap();
        let debug = format!("{made:?}");
        assert!(!debug.contains(made.password.expose_secret()), "{debug}");
        assert!(!debug.contains("SCRAM"), "{debug}");
    }
}
