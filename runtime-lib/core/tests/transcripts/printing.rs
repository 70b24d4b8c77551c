//! Effects as lines.

use leasehold_core::election::{Effect, EndReason, Notice, Purpose, Target, View, Waiting, Write};
use leasehold_core::lease::LeaseRecord;
use leasehold_core::time::{Duration, Instant};

/// One effect as one line.
pub(crate) fn effect_text(effect: &Effect) -> String {
    match effect {
        Effect::Write(write) => write_text(write),
        Effect::Read => "read".into(),
        Effect::Begin {
            term,
            token,
            trusted_until,
        } => format!(
            "BEGIN term {term}, token {token}, trusted until {}",
            instant_text(*trusted_until)
        ),
        Effect::Extend { trusted_until } => {
            format!("trusted until {}", instant_text(*trusted_until))
        }
        Effect::Shorten { trusted_until } => {
            format!("trusted only until {}", instant_text(*trusted_until))
        }
        Effect::Drain { until } => format!("drain until {}", instant_text(*until)),
        Effect::End { term, reason } => format!("END term {term}: {}", reason_text(reason)),
        Effect::Released { term } => format!("released term {term}"),
        Effect::Stopped => "stopped".into(),
        Effect::Notice(notice) => format!("notice: {}", notice_text(notice)),
    }
}

/// Seconds since the clock's origin, to the microsecond.
pub(crate) fn instant_text(at: Instant) -> String {
    duration_text(at.since(Instant::ZERO))
}

/// What the candidate believes and waits for.
pub(crate) fn view_text(view: &View) -> String {
    let holder = view.holder.as_deref().map_or("nobody".into(), short);
    let leading = view.leading.map_or(String::new(), |(token, until)| {
        format!(", leading under {token} until {}", instant_text(until))
    });
    let failures = match view.failures {
        0 => String::new(),
        failures => format!(", failures {failures}"),
    };
    let waits = waiting_text(view.waiting);
    format!(
        "{holder} holds term {}{leading}{failures}; waits {waits}",
        view.term
    )
}

fn waiting_text(waiting: Waiting) -> String {
    match waiting {
        Waiting::News => "for news".into(),
        Waiting::Vacancy(vacancy) => {
            format!("until {}: {}", instant_text(vacancy.from), vacancy.why)
        }
        Waiting::Answer => "for an answer".into(),
        Waiting::Retry(at) => format!("to retry at {}", instant_text(at)),
        Waiting::Health => "for health".into(),
        Waiting::Heartbeat(at) => format!("for the heartbeat at {}", instant_text(at)),
        Waiting::Drain { until } => format!("for the drain, until {}", instant_text(until)),
        Waiting::WorkToEnd => "for the work to end".into(),
        Waiting::Nothing => "for nothing".into(),
    }
}

fn write_text(write: &Write) -> String {
    let purpose = match write.purpose {
        Purpose::Claim => "claim",
        Purpose::Renew => "renew",
        Purpose::Release => "release",
        Purpose::Publish => "publish",
        Purpose::Fence => "fence",
    };
    let target = match &write.target {
        Target::Absent => "creating".into(),
        Target::Exactly { uid, revision } if uid.as_str() == "u" => format!("on {revision:?}"),
        Target::Exactly { uid, revision } => format!("on {revision:?} of {uid:?}"),
    };
    let record = record_text(&write.record);
    format!("write #{} {purpose} {target}: {record}", write.attempt)
}

fn record_text(record: &LeaseRecord) -> String {
    let mut words = vec![match &record.holder {
        Some(holder) => format!("{} holds", short(holder)),
        None => "empty".into(),
    }];
    words.extend(record.duration.map(duration_text));
    words.push(format!("term {}", record.term));
    words.extend(
        record
            .attempt
            .as_ref()
            .map(|stamp| format!("stamp {stamp}")),
    );
    words.extend(
        record
            .released
            .as_ref()
            .map(|stamp| format!("released {stamp}")),
    );
    words.extend(
        record
            .preferred_holder
            .as_ref()
            .map(|name| format!("prefers {name}")),
    );
    words.join(" ")
}

fn reason_text(reason: &EndReason) -> String {
    match reason {
        EndReason::Resigned => "resigned".into(),
        EndReason::TrustExpired => "trust expired".into(),
        EndReason::HeldBy(holder) => format!("held by {}", short(holder)),
        EndReason::Emptied => "emptied".into(),
        EndReason::Deleted => "deleted".into(),
        EndReason::Recreated => "recreated".into(),
        EndReason::DuplicateIdentity => "duplicate identity".into(),
        EndReason::Unhealthy => "unhealthy".into(),
        EndReason::DrainOverrun => "the drain overran".into(),
    }
}

fn notice_text(notice: &Notice) -> String {
    let word = |purpose: &Purpose| match purpose {
        Purpose::Claim => "claim",
        Purpose::Renew => "renewal",
        Purpose::Release => "release",
        Purpose::Publish => "publish",
        Purpose::Fence => "fence",
    };
    match notice {
        Notice::DuplicateIdentity => "somebody else writes under our identity".into(),
        Notice::UnknownOutcome { purpose } => {
            format!("nobody knows whether the {} was stored", word(purpose))
        }
        Notice::Conflict { purpose } => format!("the {} met a newer revision", word(purpose)),
        Notice::NotReleased { term } => format!("term {term} could not be released"),
        Notice::Adopted { attempt } => format!("write #{attempt} was stored after all"),
        Notice::PreferredHolder(name) => format!("{name} is wished as holder"),
        Notice::RetryIn(delay) => format!("next try in {}", duration_text(*delay)),
    }
}

fn short(text: &str) -> String {
    if text.len() <= 64 {
        return text.to_owned();
    }
    let start: String = text.chars().take(8).collect();
    format!("{start}... ({} bytes)", text.len())
}

fn duration_text(duration: Duration) -> String {
    let text = format!("{}.{:06}", duration.as_secs(), duration.subsec_micros());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}
