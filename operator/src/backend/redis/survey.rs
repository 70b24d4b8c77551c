//! All users of an installation at once, each as a digest (`quiet-when-settled`).

use std::collections::{BTreeMap, HashMap};

use futures::future::join_all;

use super::{Role, Server, Wants, meaning::Catalog, shown::Shown};
use crate::{
    backend::{BackendError, Slot, Subject, Survey, fingerprint},
    credential::names,
};

impl Server {
    /// The keys of a survey that belong to a service.
    pub fn survey_names(subject: &Subject<Wants>) -> Vec<String> {
        Slot::ALL.map(|slot| subject.names.login(slot)).to_vec()
    }

    /// All users that could be ours, by one `ACL LIST` on each node of the last time.
    pub async fn survey(&self) -> Result<Survey, BackendError> {
        let nodes = self.known().await?;
        let asked = nodes.iter().map(|(node, role)| async move {
            let listed = async {
                let catalog = node.any_catalog(&self.dial).await?;
                let lines: Vec<String> = node.ask(&self.dial, "acl|list", &[]).await?;
                Ok(digests(&lines, &catalog))
            };
            (*role, listed.await)
        });
        let (mut listed, mut silent) = (Vec::new(), None);
        for (role, digests) in join_all(asked).await {
            match digests {
                Ok(digests) => listed.push(digests),
                Err(error) if role == Role::Primary => return Err(error),
                Err(error) => silent = Some(error),
            }
        }
        match (listed.is_empty(), silent) {
            (true, Some(error)) => Err(error),
            _ => Ok(surveyed(&listed)),
        }
    }
}

/// The digest of each user of ours on one node.
fn digests(lines: &[String], catalog: &Catalog) -> Survey {
    // There are three profiles and many users.
    let mut meanings: HashMap<Vec<String>, String> = HashMap::new();
    let users = lines.iter().filter_map(|line| Shown::from_line(line));
    let ours = users.filter(|(name, _)| name.starts_with(names::PREFIX));
    ours.map(|(name, shown)| {
        let meaning = match meanings.get(&shown.commands) {
            Some(meaning) => meaning.clone(),
            None => catalog.digest(&shown.commands),
        };
        let digest = shown.digest(&meaning);
        meanings.insert(shown.commands, meaning);
        (name, digest)
    })
    .collect()
}

/// The digest of each user, or of all its digests if the nodes differ.
fn surveyed(nodes: &[Survey]) -> Survey {
    let mut users: BTreeMap<&String, Vec<&str>> = BTreeMap::new();
    for (name, digest) in nodes.iter().flatten() {
        users.entry(name).or_default().push(digest);
    }
    let merged = |(name, digests): (&String, Vec<&str>)| {
        let is_alike = digests.len() == nodes.len() && digests.iter().all(|one| *one == digests[0]);
        let digest = if is_alike {
            digests[0].to_owned()
        } else {
            let (on, all) = (digests.len(), nodes.len());
            format!("{} on {on} of {all} nodes", fingerprint(&digests.join(" ")))
        };
        (name.clone(), digest)
    };
    users.into_iter().map(merged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(users: &[&str]) -> Survey {
        let ours = users.iter().map(|text| format!("user {text}"));
        let all = ours.chain(["user default on nopass ~* &* +@all".to_owned()]);
        digests(&all.collect::<Vec<_>>(), &Catalog::default())
    }

    #[test]
    fn a_survey_has_our_users_alone_and_tells_when_nodes_differ() {
        let one = listed(&["lh_a on #1 ~x", "other on nopass"]);
        let alike = surveyed(&[one.clone(), one.clone()]);
        assert_eq!(alike, surveyed(std::slice::from_ref(&one)));
        assert_eq!(alike.keys().collect::<Vec<_>>(), ["lh_a"]);
        let absent = surveyed(&[one.clone(), listed(&[])]);
        let other = surveyed(&[one.clone(), listed(&["lh_a on #2 ~x"])]);
        assert_ne!(alike, absent);
        assert_ne!(alike, other);
        assert_ne!(absent, other);
        assert_eq!(other, surveyed(&[one, listed(&["lh_a on #2 ~x"])]));
    }
}
