//! Whose a role is, as its COMMENT says, and for a login which password it has (C5).

use crate::credential::names::Names;

/// What is shown of the comment of somebody else.
const SHOWN_MAX: usize = 120;

/// Whose something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Ours: generation and fingerprint, of a login.
    Ours(u64, String),
    /// Somebody else's, in words.
    Foreign(String),
}

/// The comment of a login.
pub(super) fn of_login(names: &Names, generation: u64, fingerprint: &str) -> String {
    format!(
        "{} generation={generation} fingerprint={fingerprint}",
        names.login_mark()
    )
}

/// Reads the comment of a login.
pub(super) fn read_login(names: &Names, comment: &str) -> Whose {
    let ours = || {
        // The space ends the service's name: another may begin like it.
        let rest = comment
            .strip_prefix(&names.login_mark())?
            .strip_prefix(" generation=")?;
        let (generation, fingerprint) = rest.split_once(" fingerprint=")?;
        Some(Whose::Ours(
            generation.parse().ok()?,
            fingerprint.to_owned(),
        ))
    };
    ours().unwrap_or_else(|| foreign(comment))
}

/// Reads the comment of the owner role or a group role.
pub(super) fn read_shared(names: &Names, comment: &str) -> Whose {
    if comment == names.shared_mark() {
        Whose::Ours(0, String::new())
    } else {
        foreign(comment)
    }
}

fn foreign(comment: &str) -> Whose {
    let comment: String = comment
        .chars()
        .filter(|letter| !letter.is_control())
        .take(SHOWN_MAX)
        .collect();
    Whose::Foreign(if comment.is_empty() {
        "it has no COMMENT".to_owned()
    } else {
        format!("its COMMENT is: {comment}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(service: &str) -> Names {
        Names {
            installation: "i".to_owned(),
            namespace: "n".to_owned(),
            namespace_uid: "u".to_owned(),
            cluster_id: "c".to_owned(),
            service: service.to_owned(),
        }
    }

    #[test]
    fn a_comment_is_read_as_it_was_written() {
        let comment = of_login(&names("s"), 7, "abc");
        assert_eq!(
            read_login(&names("s"), &comment),
            Whose::Ours(7, "abc".to_owned())
        );
        let mark = names("s").shared_mark();
        assert!(matches!(read_shared(&names("s"), &mark), Whose::Ours(..)));
    }

    #[test]
    fn whoever_has_another_name_or_no_mark_is_foreign() {
        let comment = of_login(&names("s2"), 7, "abc");
        for comment in [comment.as_str(), "", "by hand", &names("s").login_mark()] {
            let whose = read_login(&names("s"), comment);
            assert!(matches!(whose, Whose::Foreign(_)), "{comment}");
        }
        assert!(matches!(read_shared(&names("s"), ""), Whose::Foreign(_)));
    }
}
