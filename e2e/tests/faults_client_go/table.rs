//! The table of the faults: client-go's figure beside ours, in both roles.

use std::fmt::Write as _;

/// A fault that client-go was measured to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    LateRelease,
    BlackHole,
    HalfOpenFollower,
    HalfOpenLeader,
    UnseenTerm,
    EarlyRelease,
    Pause,
    Outage,
}

/// Who does it, to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// client-go is the one who does it, in this run.
    ClientGo,
    /// Ours is in the place of the one who does it.
    ByOurs,
    /// It is done to ours.
    ToOurs,
}

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub fault: Fault,
    pub role: Role,
    pub text: String,
}

pub(crate) fn cell(fault: Fault, role: Role, text: impl Into<String>) -> Cell {
    let text = text.into();
    Cell { fault, role, text }
}

/// Fault, and what was measured of client-go 0.37.2 at 15/10/2 s on a
/// kube-apiserver 1.37.2, in separate trials.
const ROWS: [(Fault, &str, &str); 8] = [
    (
        Fault::LateRelease,
        "A  release delivered late",
        "wipes the successor's Lease, 26 of 26",
    ),
    (
        Fault::BlackHole,
        "B  black-holed leader",
        "two leaders for 1.6–6.2 s, 10 of 10",
    ),
    (
        Fault::HalfOpenFollower,
        "C  half-open follower, leader crashes",
        "takeover after 46–64 s (15–20 usual)",
    ),
    (
        Fault::HalfOpenLeader,
        "C  half-open leader",
        "loses leadership",
    ),
    (
        Fault::UnseenTerm,
        "D  paused across a term of a rival",
        "goes on without notice, 10 of 10",
    ),
    (
        Fault::EarlyRelease,
        "E  release against end of work",
        "released about 1 ms before the end",
    ),
    (
        Fault::Pause,
        "F  woken after its lease",
        "leads on for 10.0 s, every time",
    ),
    (
        Fault::Outage,
        "G  API server silent for 20 s",
        "told when it wakes; then 0–3.4 s (21 s) without leader",
    ),
];

/// The whole table, ready to print.
pub(crate) fn render(cells: &[Cell]) -> String {
    let mut text = String::from("\nclient-go's faults, replayed\n");
    for (fault, name, measured) in ROWS {
        let find = |role| {
            let cell = cells
                .iter()
                .find(|cell| cell.fault == fault && cell.role == role);
            cell.map(|cell| cell.text.as_str())
        };
        let _ = writeln!(text, "  {name}");
        let _ = writeln!(text, "    client-go, measured before   {measured}");
        for (role, title) in [
            (Role::ClientGo, "client-go, in this run"),
            (Role::ByOurs, "ours in its place"),
            (Role::ToOurs, "done to ours"),
        ] {
            if let Some(figure) = find(role) {
                let _ = writeln!(text, "    {title:<28} {figure}");
            }
        }
    }
    text
}
