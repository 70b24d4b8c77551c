//! What one process writes down: history lines with its identity and pid.

use std::sync::Arc;

use leasehold_core::id::{FencingToken, Term};

use crate::history::{Event, Line, Writer};

/// The history of one service in this process.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    writer: Arc<Writer>,
    identity: String,
    service: String,
}

impl Journal {
    pub(super) fn new(writer: Arc<Writer>, identity: &str, service: &str) -> Self {
        Self {
            writer,
            identity: identity.to_owned(),
            service: service.to_owned(),
        }
    }

    /// Who writes.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// A line about now, to be filled in further.
    pub(super) fn line(&self, event: Event) -> Line {
        Line {
            identity: self.identity.clone(),
            service: self.service.clone(),
            pid: Some(std::process::id()),
            ..Line::new(event)
        }
    }

    /// A line about a leadership.
    pub(super) fn of(&self, event: Event, term: Term, token: FencingToken) -> Line {
        Line {
            term: Some(term.number()),
            token: Some(token.to_string()),
            ..self.line(event)
        }
    }

    /// Writes a line. A history with a hole proves nothing, so a line that
    /// cannot be written ends the process, as a crash would.
    pub(super) fn write(&self, line: &Line) {
        if let Err(error) = self.writer.write(line) {
            eprintln!("error: cannot write the history: {error}");
            std::process::abort();
        }
    }
}
