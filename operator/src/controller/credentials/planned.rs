//! What would be done, in words, for those who want to read it first. Names and numbers, never a password.

use leasehold_core::credential::{Keep, Slot, Step, Which};

use super::account::Account;

/// The steps that a step leads to; none if it changes nothing.
pub fn planned(step: &Step, account: &Account) -> Option<String> {
    let (names, server) = (&account.binding.names, &account.address);
    let secret = account.binding.secret_name();
    let login = |generation: u64| names.login(Slot::of_generation(generation));
    let plan = match step {
        Step::WriteNext {
            generation,
            previous,
            why,
        } => {
            let login = login(*generation);
            let end = match previous {
                Keep::Nothing => "",
                Keep::AsItIs | Keep::Bare { .. } | Keep::Current => {
                    "; the login before ends after its grace"
                }
            };
            format!(
                "password {generation} ({why:?}) is staged in Secret {secret}, {login} is set on {server} and \
                 tried, and then it is the one of the Secret{end}"
            )
        }
        Step::Provision => format!("owner role and database are made or mended on {server}"),
        Step::SetLogin { which, generation } => {
            let of = of(*which);
            format!(
                "{} is set on {server} to the {of} password of Secret {secret}",
                login(*generation)
            )
        }
        Step::Turn { generation, .. } => {
            let login = login(*generation);
            format!("password {generation} of {login} becomes the one of Secret {secret}")
        }
        Step::Annotate(_) => format!("annotations of Secret {secret} are written anew"),
        Step::KeepStray { generation } => {
            let login = login(*generation);
            format!("{login}, which works on {server}, becomes the login before in Secret {secret}")
        }
        Step::EndPrevious { slot, .. } => {
            let login = names.login(*slot);
            format!("{login}, the login before, and its sessions end on {server}")
        }
        Step::ForgetPrevious => format!("the keys previous-* go from Secret {secret}"),
        Step::Remove { with_shared } => {
            let shared = if *with_shared {
                ", and what they own,"
            } else {
                ""
            };
            let [one, other] = Slot::ALL.map(|slot| names.login(slot));
            format!("{one} and {other}{shared} are removed from {server}, and then Secret {secret}")
        }
        Step::DeleteSecret => format!("Secret {secret} is deleted"),
        Step::Verify { .. }
        | Step::Wait { .. }
        | Step::Settled { .. }
        | Step::Conflict(_)
        | Step::Release => return None,
    };
    Some(plan)
}

/// That keys of a Secret differ from what follows from elsewhere.
pub fn repairs(account: &Account) -> String {
    let secret = account.binding.secret_name();
    format!("keys, labels or marks of Secret {secret} that differ are written back")
}

fn of(which: Which) -> &'static str {
    match which {
        Which::Current => "present",
        Which::Next => "staged",
        Which::Previous => "former",
    }
}
