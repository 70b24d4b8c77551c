//! The words of a command.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::{FromStr, SplitWhitespace};

use leasehold_core::election::{Target, Write};
use leasehold_core::id::{LeaseUid, Revision, Term};
use leasehold_core::lease::{AttemptStamp, LeaseRecord, LeaseTiming, ReleaseStamp, Versioned};
use leasehold_core::time::Duration;

use crate::scene::duration;

/// What is left of a command.
pub(crate) struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self(line.split_whitespace().peekable())
    }

    pub(crate) fn peek(&mut self) -> Option<&'a str> {
        self.0.peek().copied()
    }

    pub(crate) fn skip(&mut self) {
        self.0.next();
    }

    /// Takes that word if it comes next.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }

    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub(crate) fn expect(&mut self, words: &str) -> Result<(), String> {
        for word in words.split(' ') {
            if !self.take(word) {
                return Err(format!("{word:?} is missing, found {:?}", self.peek()));
            }
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> Result<(), String> {
        self.peek()
            .map_or(Ok(()), |word| Err(format!("unexpected {word:?}")))
    }

    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("{what}: found {word:?}"))
    }

    pub(crate) fn duration(&mut self) -> Result<Duration, String> {
        let word = self.next("a duration")?;
        duration(word).ok_or_else(|| format!("a duration (15s, 20ms): found {word:?}"))
    }

    /// `+2s`
    pub(crate) fn later(&mut self) -> Result<Option<Duration>, String> {
        let Some(text) = self.peek().and_then(|word| word.strip_prefix('+')) else {
            return Ok(None);
        };
        self.skip();
        let delay = duration(text).ok_or_else(|| format!("a duration: found {text:?}"))?;
        Ok(Some(delay))
    }

    /// `retry after 9s`
    pub(crate) fn retry_after(&mut self) -> Result<Option<Duration>, String> {
        if !self.take("retry") {
            return Ok(None);
        }
        self.expect("after")?;
        self.duration().map(Some)
    }

    /// `fast`, or D/I/A/S in seconds: `15/5/2/3`
    pub(crate) fn timing(&mut self) -> Result<LeaseTiming, String> {
        let word = self.next("a timing")?;
        let parts: Vec<Duration> = word
            .split('/')
            .filter_map(|part| duration(&format!("{part}s")))
            .collect();
        match (word, parts.as_slice()) {
            ("default", _) => Ok(LeaseTiming::DEFAULT),
            ("fast", _) => Ok(LeaseTiming::FAST),
            ("calm", _) => Ok(LeaseTiming::CALM),
            (_, [d, i, a, s]) => LeaseTiming::new(*d, *i, *a, *s).map_err(|e| e.to_string()),
            _ => Err(format!("no timing: {word:?}")),
        }
    }

    /// `#3`
    pub(crate) fn attempt(&mut self) -> Result<Option<u64>, String> {
        let Some(number) = self.peek().and_then(|word| word.strip_prefix('#')) else {
            return Ok(None);
        };
        self.skip();
        number
            .parse()
            .map(Some)
            .map_err(|_| format!("an attempt: found {number:?}"))
    }

    pub(crate) fn state_or_nothing(
        &mut self,
        writes: &BTreeMap<u64, Write>,
    ) -> Result<Option<Versioned>, String> {
        if self.take("nothing") {
            return Ok(None);
        }
        self.state(writes).map(Some)
    }

    /// `r7 [of v]: write #2`, or `r7 [of v]: b holds ...`, or `r7 [of v]: empty ...`
    pub(crate) fn state(&mut self, writes: &BTreeMap<u64, Write>) -> Result<Versioned, String> {
        let (revision, uid) = self.name()?;
        let uid = uid.unwrap_or_else(|| LeaseUid::new("u"));
        let record = if self.take("write") {
            let attempt = self.attempt()?.ok_or("the number of a write is missing")?;
            let write = writes.get(&attempt).ok_or("no such write was sent")?;
            write.record.clone()
        } else {
            self.record()?
        };
        Ok(Versioned {
            uid,
            revision,
            record,
        })
    }

    /// What a store makes of our write: `r7 [of v]`
    pub(crate) fn stored(&mut self, write: &Write) -> Result<Versioned, String> {
        let (revision, uid) = self.name()?;
        let uid = uid.unwrap_or_else(|| match &write.target {
            Target::Exactly { uid, .. } => uid.clone(),
            Target::Absent => LeaseUid::new("u"),
        });
        Ok(Versioned {
            uid,
            revision,
            record: write.record.clone(),
        })
    }

    fn name(&mut self) -> Result<(Revision, Option<LeaseUid>), String> {
        let word = self.next("a revision")?;
        let number = word.trim_end_matches(':').strip_prefix('r');
        let revision = number
            .and_then(|number| number.parse().ok())
            .and_then(|number| Revision::new(number).ok())
            .ok_or_else(|| format!("a state starts with its revision (r7), found {word:?}"))?;
        let uid = self.take("of").then(|| self.next("a uid")).transpose()?;
        let uid = uid.map(|uid| LeaseUid::new(uid.trim_end_matches(':')));
        Ok((revision, uid))
    }

    fn record(&mut self) -> Result<LeaseRecord, String> {
        let mut record = LeaseRecord::default();
        let holder = self.next("a holder")?;
        if holder != "empty" {
            self.expect("holds")?;
            // `10000*x` is a holder of ten thousand letters.
            record.holder = Some(match holder.split_once('*') {
                Some((times, letter)) => letter.repeat(times.parse().map_err(|_| "how often?")?),
                None => holder.to_owned(),
            });
        }
        while let Some(word) = self.peek().filter(|word| *word != "asked") {
            self.skip();
            match word {
                // As a shell reads it: what is not positive is no duration, and no term is 0.
                "term" => {
                    record.term = Term::new(self.number::<i64>("a term")?.try_into().unwrap_or(0));
                }
                "stamp" => record.attempt = AttemptStamp::parse(self.next("a stamp")?),
                "released" => record.released = ReleaseStamp::parse(self.next("a stamp")?),
                "prefers" => record.preferred_holder = Some(self.next("a holder")?.to_owned()),
                _ => {
                    let published = duration(word).ok_or_else(|| format!("unexpected {word:?}"))?;
                    record.duration = Some(published).filter(|published| !published.is_zero());
                }
            }
        }
        Ok(record)
    }
}
