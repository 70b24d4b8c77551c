//! One error for the whole harness: the steps that failed, outermost first,
//! then the cause. It prints as one sentence a person can act on.

use std::fmt;

/// Result of everything the harness does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, step by step.
///
/// It takes any error through `?` and so cannot be a `std::error::Error`
/// itself; `Debug` prints like `Display`, since tests show their error by it.
pub struct Error {
    steps: Vec<String>,
}

impl Error {
    /// An error with no deeper cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            steps: vec![message.into()],
        }
    }

    /// Whether any step mentions `text`.
    pub fn mentions(&self, text: &str) -> bool {
        self.steps.iter().any(|step| step.contains(text))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().rev().enumerate() {
            let separator = if index == 0 { "" } else { ": " };
            write!(f, "{separator}{step}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let mut steps = Vec::new();
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(cause) = next {
            let text = cause.to_string();
            // Many crates repeat the cause in their own text; say it once.
            if !steps.iter().any(|step: &String| step.contains(&text)) {
                steps.push(text);
            }
            next = cause.source();
        }
        steps.reverse();
        Self { steps }
    }
}

/// Names the step in which an error happened.
pub trait Step<T> {
    /// Adds `step` in front of the error, if there is one.
    fn step<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<Error>> Step<T> for std::result::Result<T, E> {
    fn step<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|error| {
            let mut error = error.into();
            error.steps.push(step().into());
            error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Step};

    #[test]
    fn an_error_reads_from_the_outer_step_to_the_cause() {
        let missing = std::fs::read("/nonexistent/leasehold").map(|_| ());
        let error = missing
            .step(|| "reading the key")
            .step(|| "starting etcd")
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("starting etcd: reading the key: No such file"),
            "{text}"
        );
    }

    #[test]
    fn a_plain_error_is_its_message() {
        assert_eq!(Error::new("port taken").to_string(), "port taken");
    }
}
