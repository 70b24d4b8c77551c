//! Controllers. Each kind has one file with its triggers and its reconcile, and a folder with the four
//! steps: observe (reads), plan (decides, pure), apply (writes), status (derives, pure).
//!
//! | Controller | Does |
//! | --- | --- |
//! | [`drive`] | what they have in common |
//! | [`backend_class`] | says what a server lacks, and holds a class that is in use back from deletion |
//! | [`cluster_service`] | hands settings to the pods, shows who leads, announces every change |
//! | [`credentials`] | makes logins at stores, rotates and ends them |

pub mod backend_class;
pub mod cluster_service;
pub mod credentials;
pub mod drive;

use kube::api::{DeleteParams, Preconditions};

/// Deletes this object, and if a revision is given this revision of it, and no other.
fn exactly(uid: Option<String>, resource_version: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version,
        }),
        ..DeleteParams::default()
    }
}
