//! The one place where text becomes SQL. A statement is a fixed template and tokens; a token is one
//! quoted name, one quoted text or one number, so nothing that a resource says can change the shape of
//! a statement. Names that Postgres would cut are refused: it would make one role of two.

use std::fmt::{self, Display};

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::backend::BackendError;
use crate::credential::names::LENGTH_MAX;

/// One token of SQL. It may hold a verifier: no Debug.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What may stand in a statement beside its template.
pub(super) trait Part: private::Sealed + Display + Sync {}

mod private {
    pub(in crate::backend::postgres) trait Sealed {}
}

macro_rules! part {
    ($($type:ty),*) => {$(
        impl private::Sealed for $type {}
        impl Part for $type {}
    )*};
}
part!(Token, Sql, i32, i64, u64);

/// One or more statements, or a piece of one. It may hold a verifier: no Debug.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Sql(String);

impl Sql {
    /// The template with each `{}` replaced by the next part; extra parts are left out.
    pub(super) fn new(template: &'static str, parts: &[&dyn Part]) -> Self {
        let mut pieces = template.split("{}");
        let mut sql = pieces.next().unwrap_or_default().to_owned();
        let mut parts = parts.iter();
        for piece in pieces {
            if let Some(part) = parts.next() {
                sql.push_str(&part.to_string());
            }
            sql.push_str(piece);
        }
        Self(sql)
    }

    /// Adds statements at its end.
    pub(super) fn push(&mut self, template: &'static str, parts: &[&dyn Part]) {
        self.0.push_str(&Self::new(template, parts).0);
    }

    /// Pieces with commas between.
    pub(super) fn list<'a>(parts: impl IntoIterator<Item = &'a Token>) -> Self {
        let parts: Vec<_> = parts.into_iter().map(|part| part.0.as_str()).collect();
        Self(parts.join(", "))
    }

    /// Its text, for the server alone.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl Display for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name of a role, database, schema or table; `field` says where it comes from.
pub(super) fn name(field: &'static str, text: &str) -> Result<Token, BackendError> {
    if text.is_empty() || text.len() > LENGTH_MAX {
        return Err(BackendError::Invalid {
            field,
            problem: format!(
                "a name of {} bytes; 1 to {LENGTH_MAX} are allowed",
                text.len()
            ),
        });
    }
    without_nul(field, text)?;
    Ok(Token(escape_identifier(text)))
}

/// A text.
pub(super) fn text(field: &'static str, text: &str) -> Result<Token, BackendError> {
    without_nul(field, text)?;
    Ok(Token(escape_literal(text)))
}

fn without_nul(field: &'static str, text: &str) -> Result<(), BackendError> {
    if text.contains('\0') {
        return Err(BackendError::Invalid {
            field,
            problem: "it holds a NUL character, which Postgres knows in no text".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads SQL as the server's scanner does: quoted names, quoted texts, words, signs.
    fn tokens(sql: &str) -> Vec<String> {
        let mut out = Vec::new();
        let mut chars = sql.chars().peekable();
        while let Some(first) = chars.next() {
            let escapes = first == 'E' && chars.peek() == Some(&'\'');
            let quote = if escapes {
                chars.next().unwrap()
            } else {
                first
            };
            if quote == '"' || quote == '\'' {
                loop {
                    let next = chars.next().expect("a quoted token ends");
                    if escapes && next == '\\' {
                        chars.next().expect("an escape is complete");
                    } else if next == quote && chars.peek() == Some(&quote) {
                        chars.next();
                    } else if next == quote {
                        break;
                    }
                }
                out.push(if quote == '"' { "name" } else { "text" }.to_owned());
            } else if first.is_alphanumeric() {
                let mut word = first.to_string();
                while let Some(next) = chars.next_if(|next| next.is_alphanumeric() || *next == '_')
                {
                    word.push(next);
                }
                out.push(word);
            } else if !first.is_whitespace() {
                out.push(first.to_string());
            }
        }
        out
    }

    fn statement(name: &Token, text: &Token) -> Vec<String> {
        let sql = Sql::new("COMMENT ON ROLE {} IS {}; SELECT {}", &[name, text, &7_i64]);
        tokens(&sql.into_text())
    }

    proptest! {
        #[test]
        fn no_name_and_no_text_changes_the_shape_of_a_statement(
            some in "[\\PC\"'\\\\;$/*\\-\n\t]{1,15}",
            other in "[\\PC\"'\\\\;$/*\\-\n\t]{0,80}",
        ) {
            let plain = statement(&name("x", "a").unwrap(), &text("x", "b").unwrap());
            let token = text("x", &other).unwrap();
            if let Ok(quoted) = name("x", &some) {
                prop_assert_eq!(statement(&quoted, &token), plain);
            } else {
                prop_assert!(some.len() > LENGTH_MAX);
            }
        }
    }

    #[test]
    fn without_quoting_the_shape_does_change() {
        let plain = statement(&name("x", "a").unwrap(), &text("x", "b").unwrap());
        let raw = Token("a IS NULL; DROP ROLE x; --".to_owned());
        assert_ne!(statement(&raw, &text("x", "b").unwrap()), plain);
    }

    #[test]
    fn names_that_postgres_would_cut_or_cannot_hold_are_refused() {
        assert!(name("x", &"é".repeat(32)).is_err()); // 64 bytes
        assert!(name("x", &"a".repeat(63)).is_ok());
        for bad in ["", "a\0b"] {
            assert!(name("x", bad).is_err());
        }
        assert!(text("x", "a\0b").is_err());
    }
}
