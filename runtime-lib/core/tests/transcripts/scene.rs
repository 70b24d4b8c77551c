//! A scene: one candidate, its clock, and the writes that it has sent.

use std::collections::BTreeMap;

use leasehold_core::election::{Config, Effect, Election, Input, Write, WriteOutcome};
use leasehold_core::id::Identity;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};

use crate::printing::{effect_text, instant_text, view_text};
use crate::reading::Words;

/// One candidate on the stage. Unless the first command says otherwise it is called `a`, has the
/// default timing, and numbers its attempts from 1.
pub(crate) struct Scene {
    machine: Election,
    me: String,
    now: Instant,
    started: bool,
    writes: BTreeMap<u64, Write>,
    under_way: Option<Request>,
}

/// The machine asks for at most one thing at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Read,
    Write(u64),
}

impl Default for Scene {
    fn default() -> Self {
        Self::with(config("a"))
    }
}

fn config(identity: &str) -> Config {
    Config {
        identity: Identity::new(identity).expect("a plain identity"),
        token_era: 0,
        timing: LeaseTiming::DEFAULT,
        may_reclaim: false,
        first_attempt: 1,
        rules: Rules::ALL,
    }
}

impl Scene {
    fn with(config: Config) -> Self {
        Self {
            me: config.identity.as_str().to_owned(),
            machine: Election::new(config),
            now: Instant::ZERO,
            started: false,
            writes: BTreeMap::new(),
            under_way: None,
        }
    }

    /// Plays one command:
    ///
    /// | Command | Means |
    /// | --- | --- |
    /// | `candidate b fast era 2 first attempt 7 may reclaim` | only first: who is on the stage |
    /// | `+2s ...` | two seconds later ... |
    /// | `wait` | the next deadline comes |
    /// | `timer` | a timer fires now |
    /// | `watch r7: b holds 15s term 3 stamp b#3#9` | the watch delivers this revision (of uid `u`) |
    /// | `watch r7 of v: empty ...`, `... write #2` | another uid, no holder; what our write 2 stored |
    /// | `gone` | the watch says that the record left its selection |
    /// | `list nothing`, `list r7: ... asked 1s` | a list; it was sent now, or at that instant |
    /// | `read ...`, `read failed [retry after 9s]` | the answer to our read |
    /// | `done r7 [of v]`, `conflict`, `unknown`, `refused [retry after 9s]` | the answer to our write |
    /// | `conflict #1`, `stale read nothing` | an answer that nobody waits for any more |
    /// | `sick`, `healthy`, `work ended`, `retime fast` | what the process says |
    /// | `step down within 25s`, `shutdown within 25s` | the same, with the time for the drain |
    /// | `view` | what the candidate believes and waits for; no input |
    pub(crate) fn play(&mut self, line: &str) -> Result<Vec<String>, String> {
        let mut words = Words::new(line);
        if words.take("candidate") {
            return self.enter(&mut words);
        }
        self.started = true;
        let before = self.now;
        if let Some(delay) = words.later()? {
            self.now = self.now.after(delay);
        }
        let input = if words.take("wait") {
            match self.machine.next_deadline() {
                None => return Ok(vec!["nothing to wait for".into()]),
                Some(at) if at < self.now => {
                    return Err(format!("the deadline {} has passed", instant_text(at)));
                }
                Some(at) => self.now = at,
            }
            Input::Timer
        } else if words.take("view") {
            return Ok(vec![view_text(&self.machine.view())]);
        } else {
            self.input(&mut words)?
        };
        words.end()?;
        let effects = self.machine.step(input, self.now);
        let mut answers = Vec::new();
        if self.now != before {
            answers.push(format!("at {}", instant_text(self.now)));
        }
        for effect in effects {
            answers.push(effect_text(&effect));
            let request = match effect {
                Effect::Read => Request::Read,
                Effect::Write(write) => {
                    let attempt = write.attempt;
                    self.writes.insert(attempt, write);
                    Request::Write(attempt)
                }
                _ => continue,
            };
            if self.under_way.replace(request).is_some() {
                return Err("a second request while one is under way".into());
            }
        }
        answers.push(match self.machine.next_deadline() {
            Some(at) => format!("next {}", instant_text(at)),
            None => "next: waits for an input".into(),
        });
        Ok(answers)
    }

    fn enter(&mut self, words: &mut Words<'_>) -> Result<Vec<String>, String> {
        if self.started {
            return Err("the candidate is on the stage already".into());
        }
        let mut config = config(words.next("an identity")?);
        while let Some(word) = words.peek() {
            match word {
                "era" => {
                    words.skip();
                    config.token_era = words.number("an era")?;
                }
                "first" => {
                    words.expect("first attempt")?;
                    config.first_attempt = words.number("an attempt")?;
                }
                "may" => {
                    words.expect("may reclaim")?;
                    config.may_reclaim = true;
                }
                _ => config.timing = words.timing()?,
            }
        }
        *self = Self::with(config);
        self.started = true;
        Ok(Vec::new())
    }

    fn input(&mut self, words: &mut Words<'_>) -> Result<Input, String> {
        let stale = words.take("stale");
        let word = words.next("a command")?;
        if word == "read" && !stale {
            if self.under_way != Some(Request::Read) {
                return Err("no read was sent (or say: stale read ...)".into());
            }
            self.under_way = None;
        }
        Ok(match word {
            "timer" => Input::Timer,
            "watch" => Input::Watched(words.state(&self.writes)?),
            "gone" => Input::WatchedGone,
            "list" => {
                let state = words.state_or_nothing(&self.writes)?;
                let asked = if words.take("asked") {
                    Instant::ZERO.after(words.duration()?)
                } else {
                    self.now
                };
                Input::Listed { asked, state }
            }
            "read" if words.take("failed") => Input::ReadFailed {
                retry_after: words.retry_after()?,
            },
            "read" => Input::Read(words.state_or_nothing(&self.writes)?),
            "done" | "conflict" | "unknown" | "refused" => self.answer(word, words)?,
            "sick" => Input::Health(false),
            "healthy" => Input::Health(true),
            "work" => {
                words.expect("ended")?;
                Input::WorkEnded
            }
            "step" => {
                words.expect("down within")?;
                Input::StepDown {
                    drain: words.duration()?,
                }
            }
            "shutdown" => {
                words.expect("within")?;
                Input::Shutdown {
                    drain: words.duration()?,
                }
            }
            "retime" => Input::Retime(words.timing()?),
            other => return Err(format!("no such command: {other:?} of {}", self.me)),
        })
    }

    fn answer(&mut self, word: &str, words: &mut Words<'_>) -> Result<Input, String> {
        // With a number it is the answer to an earlier write.
        let attempt = match (words.attempt()?, self.under_way) {
            (Some(attempt), _) => attempt,
            (None, Some(Request::Write(attempt))) => {
                self.under_way = None;
                attempt
            }
            _ => return Err("no write was sent (or say which: conflict #1)".into()),
        };
        let write = self.writes.get(&attempt).ok_or("no such write was sent")?;
        let outcome = match word {
            "done" => WriteOutcome::Done(words.stored(write)?),
            "conflict" => WriteOutcome::Conflict,
            "unknown" => WriteOutcome::Unknown,
            _ => WriteOutcome::Refused {
                retry_after: words.retry_after()?,
            },
        };
        Ok(Input::WriteDone { attempt, outcome })
    }
}

/// Whole and broken seconds, such as `15s` and `0.25s`, and `20ms`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if let Some(millis) = text.strip_suffix("ms") {
        return millis.parse().ok().map(Duration::from_millis);
    }
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
