//! Controllers. Each kind has one file with its triggers and its reconcile, and a folder with the four
//! steps: observe (reads), plan (decides, pure), apply (writes), status (derives, pure).
//!
//! | Controller | Does |
//! | --- | --- |
//! | [`drive`] | what they have in common |
//! | [`cluster_service`] | hands settings to the pods, shows who leads, announces every change |

pub mod cluster_service;
pub mod drive;
