//! Errors that a program meets at its edges. Everything in between is retried, shown and counted.

use std::fmt;

/// Why nothing was started. Lists every problem at once, each with what to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    problems: Vec<String>,
}

impl StartError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self {
            problems: vec![problem.into()],
        }
    }

    /// `Ok` if there is no problem.
    pub(crate) fn unless_empty(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }

    /// Every problem, in no particular order.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [problem] => write!(f, "cannot start: {problem}"),
            problems => {
                write!(f, "cannot start, {} problems:", problems.len())?;
                problems
                    .iter()
                    .try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Why a running service ended otherwise than by a shutdown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It was never started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A shutdown's drain took longer than its timeout. The work was dropped, and the lease was
    /// not released: it runs out.
    #[error(
        "the work did not end within the drain timeout; the lease was not released and runs out"
    )]
    DrainOverrun,
    /// The work panicked.
    #[error("the work panicked: {0}")]
    WorkPanicked(String),
    /// The task of the election ended, by a panic or with its runtime.
    #[error("the election has ended unexpectedly")]
    ElectionEnded,
}

impl RunError {
    /// The service was refused; trying again with the same configuration will not help.
    pub fn is_start(&self) -> bool {
        matches!(self, Self::Start(_))
    }

    /// The shutdown was not clean: others must wait for the lease to lapse.
    pub fn is_drain_overrun(&self) -> bool {
        matches!(self, Self::DrainOverrun)
    }
}
