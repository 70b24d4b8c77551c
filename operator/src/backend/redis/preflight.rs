//! What a server lacks, and the command that would help.

use futures::future::join_all;

use super::{
    Persist, Server,
    discover::{Live, Nodes},
    node::Saved,
    shown::Shown,
};
use crate::backend::{BackendError, Finding};

/// What the admin must be allowed, as a rule names it, and arguments to try it with.
const NEEDED: [(&str, &[&str]); 9] = [
    ("acl|setuser", &["lh_preflight"]),
    ("acl|deluser", &["lh_preflight"]),
    ("acl|getuser", &["lh_preflight"]),
    ("acl|list", &[]),
    ("acl|cat", &[]),
    ("acl|whoami", &[]),
    ("client|list", &[]),
    ("info", &[]),
    ("ping", &[]),
];

impl Server {
    /// Looks at everything that provisioning needs. Never fails: what could not be found out is said.
    pub async fn preflight(&self) -> Vec<Finding> {
        let found = match self.discover().await {
            Ok(found) => found,
            Err(error) => return vec![unreachable(&error)],
        };
        let mut findings = vec![reachable(&found)];
        let nodes = found.all.iter().filter_map(|found| {
            let facts = found.facts.as_ref().ok()?;
            Some((found.node.clone(), facts.clone()))
        });
        let nodes: Vec<Live> = nodes.collect();
        if nodes.is_empty() {
            return findings;
        }
        findings.push(version(&nodes));
        findings.push(match found.writable(&self.endpoint.topology) {
            Ok(live) => met(
                "Writable",
                "PrimaryFound",
                format!("{} takes writes", live[0].0.address),
            ),
            Err(error) => unmet("Writable", "NoPrimary", error.to_string()),
        });
        findings.push(self.rights(&nodes).await);
        findings.push(self.persistence(&nodes).await);
        findings.extend(self.default_user(&nodes).await);
        findings.extend(self.eviction(&nodes).await);
        findings
    }

    async fn rights(&self, nodes: &[Live]) -> Finding {
        let mut missing: Vec<(String, String)> = Vec::new();
        let asked = nodes.iter().map(|(node, _)| async move {
            let me: Result<String, _> = node.ask(&self.dial, "acl|whoami", &[]).await;
            let me = me.unwrap_or_else(|_| self.dial.admin.name().to_owned());
            let mut lacking = Vec::new();
            for (needs, arguments) in self.needed() {
                let mut command: Vec<&str> = vec![&me];
                command.extend(needs.split('|'));
                command.extend(arguments);
                let answer: Result<String, _> = node.ask(&self.dial, "acl|dryrun", &command).await;
                match answer {
                    Ok(text) if text == "OK" => {}
                    Ok(_) => lacking.push(needs.to_owned()),
                    Err(BackendError::NotAllowed { .. }) => {
                        lacking.push("acl|dryrun".to_owned());
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok((node.address.to_string(), me, lacking))
        });
        let mut login = String::new();
        for answer in join_all(asked).await {
            match answer {
                Ok((node, me, lacking)) => {
                    missing.extend(lacking.into_iter().map(|needs| (node.clone(), needs)));
                    login = me;
                }
                Err(error) => return unknown("AdminRights", "Unknown", error.to_string()),
            }
        }
        if missing.is_empty() {
            return met(
                "AdminRights",
                "Sufficient",
                format!("{login} may do all that is needed"),
            );
        }
        let mut where_: Vec<&str> = missing.iter().map(|(node, _)| node.as_str()).collect();
        where_.dedup();
        let mut rules: Vec<String> = missing
            .iter()
            .map(|(_, needs)| format!("+{needs}"))
            .collect();
        rules.sort();
        rules.dedup();
        if rules.iter().any(|rule| rule == "+acl|dryrun") {
            // Nothing could be tried: name all of it.
            rules.extend(self.needed().map(|(needs, _)| format!("+{needs}")));
            rules.dedup();
        }
        let message = format!(
            "run on {}: ACL SETUSER {login} {}",
            where_.join(", "),
            rules.join(" ")
        );
        unmet("AdminRights", "Missing", message)
    }

    fn needed(&self) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
        use super::Topology;
        let save = (self.endpoint.persist != Persist::Never).then_some(("acl|save", &[][..]));
        let rewrite =
            (self.endpoint.persist == Persist::Rewrite).then_some(("config|rewrite", &[][..]));
        let cluster =
            (self.endpoint.topology == Topology::Cluster).then_some(("cluster|nodes", &[][..]));
        NEEDED.into_iter().chain(save).chain(rewrite).chain(cluster)
    }

    async fn persistence(&self, nodes: &[Live]) -> Finding {
        const TYPE: &str = "Persistence";
        let asked = nodes.iter().map(|(node, facts)| async move {
            let address = &node.address;
            let file = self.setting(node, "aclfile").await;
            let has_file = matches!(&file, Ok(path) if !path.is_empty());
            let has_config = facts.has_config_file;
            match (self.endpoint.persist, node.saved(facts)) {
                (_, Some(Saved::Failed(problem))) => (false, format!("{address}: saving failed: {problem}")),
                (Persist::Never, _) => (true, format!("{address}: users are set again after a restart, as the class says")),
                _ if has_file => (true, format!("{address}: ACL SAVE")),
                (Persist::Rewrite, _) if has_config => (true, format!("{address}: CONFIG REWRITE; its file must include no other with users")),
                (Persist::Rewrite, _) => (false, format!("{address}: no ACL file and no configuration file; users are set again after a restart")),
                (Persist::AclFile, _) => match file {
                    Ok(_) => (false, format!("{address}: no ACL file; users are set again after a restart")),
                    Err(error) => (false, format!("{address}: whether there is an ACL file is unknown ({error}); users are set again after a restart")),
                },
            }
        });
        let all = join_all(asked).await;
        let is_met = all.iter().all(|(is_met, _)| *is_met);
        let messages: Vec<String> = all.into_iter().map(|(_, message)| message).collect();
        let message = messages.join("; ");
        if is_met {
            met(TYPE, "Kept", message)
        } else {
            unmet(TYPE, "SetAgain", message)
        }
    }

    async fn default_user(&self, nodes: &[Live]) -> Option<Finding> {
        const TYPE: &str = "DefaultUserClosed";
        let asked = nodes.iter().map(|(node, _)| async move {
            let answer = node
                .ask(&self.dial, "acl|getuser", &["default"])
                .await
                .ok()?;
            let user = Shown::from_answer(answer)?;
            Some((node.address.to_string(), user.is_on && user.is_open))
        });
        let all: Option<Vec<_>> = join_all(asked).await.into_iter().collect();
        let open: Vec<String> = all?
            .into_iter()
            .filter(|(_, is_open)| *is_open)
            .map(|(node, _)| node)
            .collect();
        Some(if open.is_empty() {
            met(
                TYPE,
                "Closed",
                "default asks for a password or is off".to_owned(),
            )
        } else {
            unmet(
                TYPE,
                "DefaultUserOpen",
                format!(
                    "on {} everybody is let in as default, past all users; run there: ACL SETUSER default off, or set requirepass",
                    open.join(", ")
                ),
            )
        })
    }

    async fn eviction(&self, nodes: &[Live]) -> Option<Finding> {
        const TYPE: &str = "KeysKept";
        let policy = self.setting(&nodes[0].0, "maxmemory-policy").await.ok()?;
        let limit = self
            .setting(&nodes[0].0, "maxmemory")
            .await
            .unwrap_or_default();
        let says = format!("maxmemory-policy is {policy}, maxmemory is {limit}");
        Some(if policy.starts_with("allkeys") && limit != "0" {
            unmet(
                TYPE,
                "EvictsAnyKey",
                format!(
                    "{says}: locks, queues and fences can vanish under memory pressure; volatile-* or noeviction would keep them"
                ),
            )
        } else {
            met(TYPE, "EvictsNoneWithoutLifetime", says)
        })
    }

    async fn setting(&self, node: &super::Node, name: &str) -> Result<String, BackendError> {
        let answer: Vec<String> = node.ask(&self.dial, "config|get", &[name]).await?;
        Ok(answer.into_iter().nth(1).unwrap_or_default())
    }
}

fn unreachable(error: &BackendError) -> Finding {
    let reason = match error {
        BackendError::Unreachable { .. } => "Unreachable",
        BackendError::LoginRefused { .. } => "LoginRefused",
        BackendError::Invalid { .. } => "Invalid",
        BackendError::NotAllowed { .. } => "NotAllowed",
        _ => "Refused",
    };
    unmet("Reachable", reason, error.to_string())
}

fn reachable(found: &Nodes) -> Finding {
    let all = found.all.len();
    let errors: Vec<&BackendError> = found
        .all
        .iter()
        .filter_map(|one| one.facts.as_ref().err())
        .collect();
    if let (Some(first), true) = (errors.first(), errors.len() == all) {
        return unreachable(first);
    }
    let mut notes: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let replicas = found.all.iter().filter(|one| !one.is_primary()).count();
    // A node that is listed by its name may be announced by its address: only more than those count.
    if found.refused.len() > replicas {
        let named: Vec<String> = found
            .refused
            .iter()
            .map(|(node, _)| node.to_string())
            .collect();
        notes.push(format!(
            "the server names {}, which the class neither lists nor permits: no users there",
            named.join(", ")
        ));
    }
    let live = all - errors.len();
    if notes.is_empty() {
        met(
            "Reachable",
            "AllNodes",
            format!("{live} of {all} nodes answer"),
        )
    } else {
        unmet(
            "Reachable",
            "SomeNodes",
            format!("{live} of {all} nodes answer; {}", notes.join("; ")),
        )
    }
}

fn version(nodes: &[Live]) -> Finding {
    let says = |(node, facts): &Live| match &facts.valkey {
        Some(valkey) => format!("{}: Valkey {valkey}", node.address),
        None => format!("{}: Redis {}", node.address, facts.version),
    };
    let message = nodes.iter().map(says).collect::<Vec<_>>().join(", ");
    if nodes.iter().all(|(_, facts)| facts.is_supported()) {
        met("VersionSupported", "Supported", message)
    } else {
        unmet(
            "VersionSupported",
            "TooOld",
            format!("{message}; needed is Redis 7.0 or Valkey"),
        )
    }
}

fn met(condition: &'static str, reason: &'static str, message: String) -> Finding {
    finding(condition, Some(true), reason, message)
}

fn unmet(condition: &'static str, reason: &'static str, message: String) -> Finding {
    finding(condition, Some(false), reason, message)
}

fn unknown(condition: &'static str, reason: &'static str, message: String) -> Finding {
    finding(condition, None, reason, message)
}

fn finding(
    condition: &'static str,
    is_met: Option<bool>,
    reason: &'static str,
    message: String,
) -> Finding {
    Finding {
        condition,
        is_met,
        reason,
        message,
    }
}
