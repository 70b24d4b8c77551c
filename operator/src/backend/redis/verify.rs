//! Logs in as the consumer would, on each node, and tries what must work and what must not.

use futures::future::try_join_all;
use redis::{ErrorKind, RedisError, ServerErrorKind, aio::MultiplexedConnection};
use secrecy::SecretString;

use super::{
    Admin, Profile, Server, Wants,
    node::Node,
    rules::{self, Rules},
};
use crate::backend::{BackendError, Slot, Subject};

/// No key of any service: all of theirs hold a colon.
const OUTSIDE: &str = "leasehold-outside";
/// How long the key of a check lives, in milliseconds.
const LIFETIME: &str = "10000";

/// What a node says to a command of the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Permitted, even if the node could not do it: another has the key, or it takes no writes now.
    Permitted,
    /// Not permitted.
    Denied,
}

impl Server {
    /// Logs in as a user on each node that answers, and tries keys inside and outside its prefix.
    pub async fn verify(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        password: &SecretString,
    ) -> Result<(), BackendError> {
        Rules::of(subject)?;
        let who = Admin {
            username: Some(rules::user(subject, slot)?),
            password: password.clone(),
        };
        let prefix = subject.names.key_prefix();
        let nodes = self.writable().await?;
        let tried = nodes
            .iter()
            .map(|(node, _)| self.try_on(node, &who, &prefix, subject.wants.profile));
        try_join_all(tried).await.map(drop)
    }

    async fn try_on(
        &self,
        node: &Node,
        who: &Admin,
        prefix: &str,
        profile: Profile,
    ) -> Result<(), BackendError> {
        let mut connection = self.dial.login(&node.address, who).await?;
        let inside = format!("{prefix}leasehold-check");
        let writes = if profile == Profile::ReadOnly {
            Verdict::Denied
        } else {
            Verdict::Permitted
        };
        let checks: [(&[&str], Verdict); 5] = [
            (&["PING"], Verdict::Permitted),
            (&["GET", &inside], Verdict::Permitted),
            (&["SET", &inside, "1", "PX", LIFETIME], writes),
            (&["GET", OUTSIDE], Verdict::Denied),
            (&["SET", OUTSIDE, "1", "PX", LIFETIME], Verdict::Denied),
        ];
        for (command, expected) in checks {
            let found = self.verdict(&mut connection, node, who, command).await?;
            if found != expected {
                return Err(BackendError::Refused {
                    server: node.address.to_string(),
                    what: format!("checking what {} may do", who.name()),
                    problem: format!(
                        "{} is {found:?}, expected {expected:?}",
                        command[..2.min(command.len())].join(" ")
                    ),
                });
            }
        }
        Ok(())
    }

    async fn verdict(
        &self,
        connection: &mut MultiplexedConnection,
        node: &Node,
        who: &Admin,
        command: &[&str],
    ) -> Result<Verdict, BackendError> {
        let mut asked = redis::cmd(command[0]);
        asked.arg(&command[1..]);
        match asked.query_async::<redis::Value>(connection).await {
            Ok(_) => Ok(Verdict::Permitted),
            Err(error) => said(&error).ok_or_else(|| {
                self.dial
                    .sorted(&node.address, who, &command[0].to_ascii_lowercase(), &error)
            }),
        }
    }
}

// Rights are looked at before anything else, so these answers come from who has them.
fn said(error: &RedisError) -> Option<Verdict> {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoPerm) => Some(Verdict::Denied),
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown,
        ) => Some(Verdict::Permitted),
        _ => {
            let is_passing = ["OOM", "MISCONF", "NOREPLICAS", "WRONGTYPE"].contains(&error.code()?);
            is_passing.then_some(Verdict::Permitted)
        }
    }
}
